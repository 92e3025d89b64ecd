"""Large mixes by seed."""

from pathlib import Path

import pytest

from tests.simulation.conftest import Tally
from tests.simulation.mixes import run_mix
from tests.simulation.world import Counts


def test_a_few_mixes(tmp_path: Path, tally: Tally) -> None:
    total = Counts()
    for seed in range(25):
        total.add(run_mix(seed, tmp_path / "mix", workers=4, calls=12, crashes=2 * (seed % 2)))
    tally(total)
    assert total.commits > 25
    assert total.crashes > 0


@pytest.mark.slow
def test_many_mixes(tmp_path: Path, tally: Tally) -> None:
    total = Counts()
    for seed in range(1000, 1200):
        total.add(run_mix(seed, tmp_path / "mix", workers=6, calls=20, crashes=3 * (seed % 2)))
    tally(total)
    assert total.commits > 1000
