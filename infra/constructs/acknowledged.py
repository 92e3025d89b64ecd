"""Findings of cdk-nag that are meant, each with the reason in a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct


def acknowledge(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accept these rules' findings (rule → reason) on the construct and below."""
    Validations.of(construct).acknowledge(*(Acknowledgment(id=rule, reason=why) for rule, why in reasons.items()))


def acknowledge_stars(construct: Construct, statements: Iterable[iam.PolicyStatement], reason: str) -> None:
    """Accept a role's patterns of resources, one by one, so that no other star slips in with them."""
    shown = (_shown(Stack.of(construct).resolve(arn)) for each in statements for arn in each.resources)
    acknowledge(construct, {f"AwsSolutions-IAM5[Resource::{arn}]": reason for arn in sorted(set(shown)) if "*" in arn})


def _shown(value: Any) -> str:
    """An ARN as cdk-nag spells it: what is known only at deployment in angle brackets."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return f"<{value['Ref']}>"
    if "Fn::Join" not in value:
        # One whole resource of this stack or another.
        return ""
    separator, parts = value["Fn::Join"]
    return str(separator).join(_shown(part) for part in parts)
