"""The checks of the simulation catch every mistake they are there for."""

from pathlib import Path

import pytest

from tests.simulation.broken import MISTAKES, Mistake
from tests.simulation.configurations import CONFIGURATIONS
from tests.simulation.world import explore

BY_NAME = {configuration.name: configuration for configuration in CONFIGURATIONS}


@pytest.mark.parametrize(
    ("mistake", "configuration"),
    [pytest.param(m, c, id=f"{m.name}-{c}".replace(" ", "-")) for m in MISTAKES for c in m.shows_in],
)
def test_the_mistake_is_caught(
    mistake: Mistake, configuration: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake.patch(monkeypatch)
    with pytest.raises(AssertionError):
        explore(BY_NAME[configuration], tmp_path / "broken", mistake.crashes)


def test_most_of_the_mistakes_are_races() -> None:
    assert len(MISTAKES) >= 20
    assert sum(mistake.race for mistake in MISTAKES) * 2 > len(MISTAKES)
