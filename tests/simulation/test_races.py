"""Every interleaving of every small configuration, without and with a worker that dies anywhere."""

from pathlib import Path

import pytest

from tests.simulation.configurations import CONFIGURATIONS
from tests.simulation.conftest import Tally
from tests.simulation.world import Configuration, explore

# Files that come and go have many more orders than statements alone.
MARKED = [
    pytest.param(c, marks=[pytest.mark.slow] if c.drops else [], id=c.name.replace(" ", "-")) for c in CONFIGURATIONS
]


@pytest.mark.parametrize("configuration", MARKED)
def test_every_interleaving_keeps_the_promises(configuration: Configuration, tmp_path: Path, tally: Tally) -> None:
    counts = explore(configuration, tmp_path)
    tally(counts)
    assert counts.interleavings > 1


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: c.name.replace(" ", "-"))
def test_every_interleaving_with_a_crash_anywhere_keeps_the_promises(
    configuration: Configuration, tmp_path: Path, tally: Tally
) -> None:
    counts = explore(configuration, tmp_path, crashes=1)
    tally(counts)
    assert counts.crashes > 1
