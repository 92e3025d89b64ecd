"""The matrix catches every mistake that it is there for. Played in this process, on the table in memory."""

from __future__ import annotations

import pytest

from shared.domain.errors import StrataError
from tests.faults.broken import MISTAKES, Mistake
from tests.faults.matrix import refer, shrink
from tests.faults.scenarios import BY_NAME
from tests.faults.stage import FaultStage

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "mistake", [pytest.param(each, id=f"{each.name}-{each.scenario}".replace(" ", "-")) for each in MISTAKES]
)
def test_the_mistake_is_caught(mistake: Mistake, in_memory: FaultStage, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = BY_NAME[mistake.scenario]
    shrink(scenario, monkeypatch)
    reference = refer(in_memory, scenario)
    mistake.cell(in_memory, scenario, reference)
    mistake.patch(monkeypatch)
    with pytest.raises((AssertionError, LookupError, StrataError)):
        mistake.cell(in_memory, scenario, reference)
    in_memory.hook.aim()


def test_there_are_enough_mistakes() -> None:
    assert len({mistake.name for mistake in MISTAKES}) >= 12
