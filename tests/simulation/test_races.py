"""Every interleaving of every small configuration, without and with a worker that dies anywhere, on every back end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.configurations import CONFIGURATIONS
from tests.simulation.conftest import Tally
from tests.simulation.dynamo_stage import DynamoStage
from tests.simulation.sqlite_stage import SqliteStage
from tests.simulation.world import Configuration, Stage, explore

STAGES: dict[str, Callable[[Path], Stage]] = {"sqlite": SqliteStage, "dynamodb": lambda _: DynamoStage()}
# A verb is five to ten requests: three workers have more orders than a test has time.
FEW, MANY = {"sqlite": None, "dynamodb": 4}, {"sqlite": None, "dynamodb": 80}
# Files that come and go have many more orders than statements alone.
MARKED = [
    pytest.param(c, marks=[pytest.mark.slow] if c.drops else [], id=c.name.replace(" ", "-")) for c in CONFIGURATIONS
]


on_every_stage = pytest.mark.parametrize("stage", list(STAGES))


@on_every_stage
@pytest.mark.parametrize("configuration", MARKED)
def test_interleavings_keep_the_promises(
    configuration: Configuration, stage: str, tmp_path: Path, tally: Tally
) -> None:
    counts = explore(configuration, STAGES[stage](tmp_path), limit=FEW[stage])
    tally(counts)
    assert counts.interleavings > 1


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: c.name.replace(" ", "-"))
def test_many_interleavings_on_dynamodb_keep_the_promises(configuration: Configuration, tally: Tally) -> None:
    counts = explore(configuration, DynamoStage(), limit=MANY["dynamodb"])
    tally(counts)
    assert counts.interleavings > 1


@pytest.mark.slow
@on_every_stage
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: c.name.replace(" ", "-"))
def test_interleavings_with_a_crash_anywhere_keep_the_promises(
    configuration: Configuration, stage: str, tmp_path: Path, tally: Tally
) -> None:
    counts = explore(configuration, STAGES[stage](tmp_path), crashes=1, limit=MANY[stage])
    tally(counts)
    assert counts.crashes > 1
