"""The checks of the simulation catch every mistake they are there for, on every back end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation import broken, broken_dynamo
from tests.simulation.broken import Mistake
from tests.simulation.configurations import CONFIGURATIONS
from tests.simulation.dynamo_stage import DynamoStage
from tests.simulation.sqlite_stage import SqliteStage
from tests.simulation.world import Stage, explore

BY_NAME = {configuration.name: configuration for configuration in CONFIGURATIONS}
STAGES: dict[str, tuple[list[Mistake], Callable[[Path], Stage]]] = {
    "sqlite": (broken.MISTAKES, SqliteStage),
    "dynamodb": (broken_dynamo.MISTAKES, lambda _: DynamoStage()),
}
CASES = [
    pytest.param(
        mistake,
        configuration,
        stage,
        id=f"{back_end}-{mistake.name}-{configuration}".replace(" ", "-"),
        # The table's mistakes take longer to find than SQLite's.
        marks=[pytest.mark.slow] if back_end == "dynamodb" else [],
    )
    for back_end, (mistakes, stage) in STAGES.items()
    for mistake in mistakes
    for configuration in mistake.shows_in
]


@pytest.mark.parametrize(("mistake", "configuration", "stage"), CASES)
def test_the_mistake_is_caught(
    mistake: Mistake,
    configuration: str,
    stage: Callable[[Path], Stage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mistake.patch(monkeypatch)
    with pytest.raises(AssertionError):
        explore(BY_NAME[configuration], stage(tmp_path), mistake.crashes)


@pytest.mark.parametrize(("mistakes", "least"), [(broken.MISTAKES, 20), (broken_dynamo.MISTAKES, 15)])
def test_most_of_the_mistakes_are_races(mistakes: list[Mistake], least: int) -> None:
    assert len(mistakes) >= least
    assert sum(mistake.race for mistake in mistakes) * 2 > len(mistakes)
