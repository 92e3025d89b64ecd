"""Log groups, all alike: a name under the environment's, the data's key, an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs

if TYPE_CHECKING:
    from aws_cdk import aws_kms as kms
    from constructs import Construct

    from infra.env import Environment


def log_group(scope: Construct, id_: str, environment: Environment, name: str, key: kms.IKey) -> logs.LogGroup:
    """The log group ``/strata/<env>/<name>``. It goes with its stack: logs hold nothing that is not elsewhere."""
    return logs.LogGroup(
        scope,
        id_,
        log_group_name=f"/strata/{environment.name}/{name}",
        retention=_retention(environment.log_days),
        encryption_key=key,
        removal_policy=RemovalPolicy.DESTROY,
    )


def _retention(days: int) -> logs.RetentionDays:
    return _DAYS[days]


_DAYS = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    120: logs.RetentionDays.FOUR_MONTHS,
    150: logs.RetentionDays.FIVE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    400: logs.RetentionDays.THIRTEEN_MONTHS,
    545: logs.RetentionDays.EIGHTEEN_MONTHS,
    731: logs.RetentionDays.TWO_YEARS,
    1827: logs.RetentionDays.FIVE_YEARS,
    3653: logs.RetentionDays.TEN_YEARS,
}
