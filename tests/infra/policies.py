"""Policies as IAM reads them: whether one allows a request, and what in a template is wider than it need be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

Statement = Mapping[str, Any]

NOWHERE_NARROWER = {
    "xray:PutTelemetryRecords": "X-Ray has no resources for it",
    "xray:PutTraceSegments": "X-Ray has no resources for it",
}
"""Actions that AWS allows on everything or not at all."""

WIDE_ENOUGH = {
    r"(:domain/[^/*?]+|\})/(strata-\*(/_\w+)?|(_alias|_cluster/health)/strata-\*)": "all names of indexes begin alike",
    r":bedrock:\*::foundation-model/[^*]+": "an inference profile picks the region",
    r":secret:[^*?]+-\?{6}": "Secrets Manager puts six characters behind a name",
    r":log-group:[^*]+(:\*|:log-stream:\*)": "a process names its log stream itself",
}
"""The only stars there may be in a resource of a role's policy."""


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody does to something."""

    action: str
    arn: str


def several(value: Any) -> list[Any]:
    """IAM writes a list of one without the list."""
    return value if isinstance(value, list) else [value]


@cache
def pattern(text: str) -> re.Pattern[str]:
    """Stars and question marks stand for any characters, slashes and colons included."""
    parts = (".*" if each == "*" else "." if each == "?" else re.escape(each) for each in text)
    return re.compile("".join(parts), re.DOTALL)


def allowed(statement: Statement, request: Request) -> bool:
    """Conditions are taken as met."""
    actions = any(pattern(each.lower()).fullmatch(request.action.lower()) for each in several(statement["Action"]))
    return actions and any(pattern(each).fullmatch(request.arn) for each in several(statement["Resource"]))


def differences(function: str, asked: Iterable[Request], policy: Sequence[Statement]) -> list[str]:
    """Requests that the policy does not allow, and pairs of action and resource that no request needed."""
    requests = list(asked)
    missing = [each for each in requests if not any(allowed(statement, each) for statement in policy)]
    found = [f"{function} lacks {each.action} on {each.arn}" for each in missing]
    for statement in policy:
        for action in several(statement["Action"]):
            for resource in several(statement["Resource"]):
                pair = {"Action": action, "Resource": resource}
                if not any(allowed(pair, each) for each in requests):
                    found.append(f"{function} does not need {action} on {resource}")
    return sorted(found)


def wide(template: Mapping[str, Any]) -> list[str]:
    """What in a CloudFormation template allows more than has to be: stars, policies of others, anybody as principal."""
    found: list[str] = []
    for name, resource in template["Resources"].items():
        kind, properties = resource["Type"], resource.get("Properties", {})
        if kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy"):
            found += _wide_statements(name, properties["PolicyDocument"])
        elif kind in ("AWS::IAM::Role", "AWS::IAM::User", "AWS::IAM::Group"):
            managed = properties.get("ManagedPolicyArns", ())
            found += [f"{name}: has the managed policy {text_of(each)}" for each in managed]
            for policy in properties.get("Policies", ()):
                found += _wide_statements(name, policy["PolicyDocument"])
            if "AssumeRolePolicyDocument" in properties:
                found += _of_anybody(name, properties["AssumeRolePolicyDocument"])
        else:
            for key in ("KeyPolicy", "AccessPolicies", "PolicyDocument", "ResourcePolicy"):
                if isinstance(properties.get(key), Mapping) and "Statement" in properties[key]:
                    found += _of_anybody(name, properties[key])
    return sorted(found)


def _wide_statements(name: str, document: Mapping[str, Any]) -> Iterator[str]:
    for statement in several(document["Statement"]):
        if statement["Effect"] != "Allow":
            continue
        for key in ("NotAction", "NotResource"):
            if key in statement:
                yield f"{name}: {key} allows everything else"
        actions = several(statement.get("Action", []))
        yield from (f"{name}: the action {each} is a pattern" for each in actions if "*" in each or "?" in each)
        for resource in map(text_of, several(statement.get("Resource", []))):
            if resource == "*":
                narrower = sorted(set(actions) - NOWHERE_NARROWER.keys())
                yield from (f"{name}: {each} is allowed on everything" for each in narrower)
            elif ("*" in resource or "?" in resource) and not any(
                re.search(each + "$", resource) for each in WIDE_ENOUGH
            ):
                yield f"{name}: the resource {resource} is a pattern, for {', '.join(actions)}"


def _of_anybody(name: str, document: Mapping[str, Any]) -> Iterator[str]:
    for statement in several(document["Statement"]):
        principals = statement.get("Principal", {})
        every = (
            [principals] if isinstance(principals, str) else [p for each in principals.values() for p in several(each)]
        )
        if statement["Effect"] == "Allow" and "*" in every and not statement.get("Condition"):
            yield f"{name}: anybody may {', '.join(several(statement['Action']))}"


def text_of(value: Any) -> str:
    """A value of a template as text; what only the deployment knows stands as ``${…}``."""
    if isinstance(value, str):
        return re.sub(r"\$\{[^}]*\}", lambda match: match[0].replace("*", ""), value)
    if not isinstance(value, Mapping):
        return str(value)
    ((function, given),) = value.items()
    if function == "Fn::Join":
        return str(given[0]).join(text_of(each) for each in given[1])
    if function == "Fn::Sub":
        return text_of(given if isinstance(given, str) else given[0])
    named = given if isinstance(given, str) else ".".join(map(str, several(given)[:2]))
    return "${" + named.replace("*", "") + "}"
