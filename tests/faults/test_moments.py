"""What else happens to the table while a verb runs: at every one of its requests, and then the promises still hold.

Deletion by time to live comes early (it is days late in the matrix, where it never comes), sources are deleted, another
hand settles the same batch, or the vault is emptied. Played in this process, on the table in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.faults.conftest import Tally
from tests.faults.hook import TRANSACTION
from tests.faults.matrix import refer, shrink
from tests.faults.moments import (
    DELETED,
    Other,
    at_every_request,
    deleting,
    early,
    emptying,
    goes_on,
    goes_one_step,
    helping,
)
from tests.faults.scenarios import (
    BY_NAME,
    LEASED,
    ONCE,
    ROWS,
    SMALL,
    WRITING,
    Scenario,
    append,
)
from tests.faults.stage import FaultStage, Site

pytestmark = pytest.mark.slow

REUSED = Scenario("append under a used key", append(ROWS[3:6], ONCE), (append(ROWS[:3], ONCE),))
EARLY = [
    (REUSED, ("idempotency records",)),
    (BY_NAME["append with a key"], ("idempotency records",)),
    (BY_NAME["large append with a key"], ("everything", "staged texts")),
    (BY_NAME["very large append"], ("everything", "staged texts")),
    *(
        (BY_NAME[name], ("everything", "headers", "source lists"))
        for name in ("commit", "release", "renew", "checkout beside a lease", "checkout with a lease to fence",
                     "commit a month late", "reopen", "commit repeated half-way")
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("scenario", "kind"),
    [
        pytest.param(scenario, kind, id=f"{scenario.name}-{kind}".replace(" ", "-"))
        for scenario, kinds in EARLY
        for kind in kinds
    ],
)
def test_time_to_live_comes_early(
    scenario: Scenario, kind: str, in_memory: FaultStage, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(scenario, monkeypatch)
    tally(early=at_every_request(in_memory, scenario, refer(in_memory, scenario), early(kind)))


@pytest.mark.parametrize("what", DELETED)
@pytest.mark.parametrize(
    "name", ["commit", "commit repeated half-way", "reopen", "checkout with a commit to help", "delete free rows"]
)
def test_rows_are_deleted_meanwhile(
    name: str, what: str, in_memory: FaultStage, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = BY_NAME[name]
    shrink(scenario, monkeypatch)
    tally(deletions=at_every_request(in_memory, scenario, refer(in_memory, scenario), deleting(what)))


@pytest.mark.parametrize("other", [goes_on, goes_one_step])
@pytest.mark.parametrize(
    "name",
    ["commit", "commit repeated half-way", "reopen", "reopen repeated half-way", "sources half-way",
     "large append with a key", "large append repeated half-way", "very large append"],
)  # fmt: skip
def test_another_hand_goes_on_with_the_same(
    name: str, other: Other, in_memory: FaultStage, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = BY_NAME[name]
    shrink(scenario, monkeypatch)
    tally(settlers=at_every_request(in_memory, scenario, refer(in_memory, scenario), helping(other)))


@pytest.mark.parametrize("scenario", WRITING, ids=lambda scenario: scenario.name.replace(" ", "-"))
def test_the_vault_is_emptied_meanwhile(
    scenario: Scenario, in_memory: FaultStage, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(scenario, monkeypatch)
    known: Callable[[Site], object] = BY_NAME["add a key"].verb
    scenario = replace(scenario, before=(known, *scenario.before))
    tally(emptied=at_every_request(in_memory, scenario, refer(in_memory, scenario), emptying))


def test_lowered_limits_make_many_steps(in_memory: FaultStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the matrix rests on: its little data takes several transactions."""
    for name in ("commit", "reopen", "large append", "delete free rows", "restore"):
        scenario = BY_NAME[name]
        assert scenario.small == SMALL
        shrink(scenario, monkeypatch)
        assert refer(in_memory, scenario).operations.count(TRANSACTION) >= 2
    assert len(refer(in_memory, replace(BY_NAME["release"], before=LEASED)).operations) >= 3
