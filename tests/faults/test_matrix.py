"""Every verb, every fault, every request of the verb that the fault can befall."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Tally
from tests.faults.hook import DEATHS, LASTING, PASSING
from tests.faults.matrix import death, lasting, passing, play_all, refer, shrink
from tests.faults.scenarios import SCENARIOS, Scenario
from tests.faults.stage import FaultStage

pytestmark = [pytest.mark.slow, pytest.mark.loopback]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name.replace(" ", "-"))
def test_every_fault_at_every_request(
    scenario: Scenario, stage: FaultStage, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(scenario, monkeypatch)
    reference = refer(stage, scenario)
    tally(
        verbs=1,
        passing=play_all(stage, scenario, reference, PASSING, passing),
        deaths=play_all(stage, scenario, reference, DEATHS, death),
        lasting=play_all(stage, scenario, reference, LASTING, lasting),
    )
