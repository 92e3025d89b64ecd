"""Conflicts and deaths at any request, thousands of times, and adapters with one mistake each that must show in it.

The vaults lie in memory and are small, so that everybody wants the same rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from shared.adapters.dynamodb import checkout, consolidation, leases, settling, undoing, values
from tests.e2e.dynamodb_storm import Round

STORMS = 4
COMMITS = 2500
CALLS = 130
MOST_ROUNDS = 12

Build = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("storm", range(STORMS))
def test_nothing_is_lost_or_done_twice_in_a_storm_of_conflicts_and_deaths(
    storm: int, request: pytest.FixtureRequest
) -> None:
    sums, rounds = Counter[str](), 0
    while sums["commits"] < COMMITS:
        sums += Round(1000 * storm + rounds, CALLS).play()
        rounds += 1
    request.node.user_properties.append(("storms on DynamoDB", {"vaults": rounds, **sums, "violations": 0}))


def unconditional(build: Build) -> Build:
    """The same write, whatever it finds."""

    def built(*arguments: Any, **named: Any) -> dict[str, Any]:
        operation = build(*arguments, **named)
        ((_, request),) = operation.items()
        request.pop("ConditionExpression", None)
        request.pop("ReturnValuesOnConditionCheckFailure", None)
        used = set(re.findall(r"[#:]\w+", request.get("UpdateExpression", "")))
        for kind in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
            kept = {name: value for name, value in request.pop(kind, {}).items() if name in used}
            request.update({kind: kept} if kept else {})
        return operation

    return built


def enter_a_ledger_that_others_entered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leases.Ledger, "enter", unconditional(leases.Ledger.enter))


def settle_steps_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settling, "_step", unconditional(settling._step))


def fence_what_was_renewed_or_committed(patch: pytest.MonkeyPatch) -> None:
    for module in (leases, checkout, undoing):
        patch.setattr(module, "fence", unconditional(leases.fence))


def flip_what_is_no_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consolidation, "update", unconditional(values.update))


@pytest.mark.parametrize(
    "mistake",
    [
        enter_a_ledger_that_others_entered,
        settle_steps_again,
        fence_what_was_renewed_or_committed,
        flip_what_is_no_lease,
    ],
)
def test_a_storm_shows_a_condition_that_is_missing(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)

    def storms() -> None:
        for seed in range(MOST_ROUNDS):
            Round(seed, CALLS).play()

    with pytest.raises((AssertionError, KeyError)):
        storms()
