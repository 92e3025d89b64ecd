"""Steps at their real sizes, and hands that race on real connections."""

from __future__ import annotations

from threading import Barrier, Thread
from typing import Any

import pytest

from shared.domain.selection import Budget
from tests.contract.rows import Maker
from tests.faults.conftest import Tally
from tests.faults.hook import DEATHS, PASSING, TRANSACTION, WRITES
from tests.faults.matrix import death, outcome, passing, refer, shrink
from tests.faults.scenarios import BATCH, BY_NAME, ONCE, Scenario, append, checkout, commit
from tests.faults.stage import FaultStage

pytestmark = [pytest.mark.slow, pytest.mark.loopback]


def test_settlers_race_on_real_connections(stage: FaultStage, tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = BY_NAME["commit repeated half-way"]
    shrink(scenario, monkeypatch)
    reference = refer(stage, scenario)
    rounds, hands = 8, 4
    for _ in range(rounds):
        vault_id = stage.copy(reference.before)
        together = Barrier(hands)
        answers: list[Any] = []

        def settle(vault_id: str = vault_id, together: Barrier = together, answers: list[Any] = answers) -> None:
            site = stage.site(vault_id, waits=True)
            together.wait()
            answers.append(outcome(scenario.verb, site))

        threads = [Thread(target=settle) for _ in range(hands)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [reference.answer] * hands
        assert stage.content(vault_id, reference.partitions) == reference.after
    tally(races=rounds)


@pytest.fixture(scope="module")
def full() -> Scenario:
    """A settling of real size: 300 sources and 100 reflections."""
    make = Maker(1000)
    rows, entries = make.raws(300), make.entries(*[1 + number % 10 for number in range(100)])
    chunks = [append(rows[start : start + 90]) for start in range(0, 300, 90)]
    return Scenario(
        "full settling", commit(entries=entries), (*chunks, checkout(BATCH, Budget())), again=commit(entries=entries),
        same=BY_NAME["commit"].same,
    )  # fmt: skip


@pytest.mark.parametrize("part", ["time-outs", "deaths"])
def test_a_settling_of_many_steps_is_cut_off_in_each(
    part: str, full: Scenario, stage: FaultStage, tally: Tally
) -> None:
    reference = refer(stage, full)
    steps = [place for place, operation in enumerate(reference.operations) if operation == TRANSACTION]
    assert len(steps) >= 6
    faults, play = (DEATHS, death) if part == "deaths" else ([f for f in PASSING if "answer" in f.name], passing)
    for fault in faults:
        for place in steps:
            play(stage, full, reference, fault, place)
    tally(cut_off=len(faults) * len(steps))


@pytest.mark.parametrize("where", ["in_memory", "stage"])
def test_a_very_large_write_at_its_real_size(where: str, request: pytest.FixtureRequest, tally: Tally) -> None:
    """More than one transaction holds: its parts are staged before the commit point, and its rows settle by weight.

    The table in memory counts a transaction's items as DynamoDB does, ministack the bytes that are sent.
    """
    stage: FaultStage = request.getfixturevalue(where)
    make = Maker(1000)
    digits = [f"{3 ** (150_000 + number):x}" for number in range(80)]
    rows = [make.raw(text) for text in digits]
    assert sum(len(row.text) for row in rows) > 4_000_000
    scenario = Scenario("4 MB", append(rows, ONCE), again=append(rows, ONCE), same=BY_NAME["large append"].same)
    reference = refer(stage, scenario)
    writes = [place for place, operation in enumerate(reference.operations) if operation in WRITES]
    assert "PutItem" in reference.operations
    (lost,) = [fault for fault in PASSING if fault.name == "done, answer lost"]
    for place in writes[:: max(1, len(writes) // 4)]:
        passing(stage, scenario, reference, lost, place)
    tally(very_large=1)
