"""Every simulation says what it tried; the run ends with the sums in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pytest

from tests.simulation.world import Counts

Tally = Callable[[Counts], None]


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """Takes a test's counts into the sums."""
    return lambda counts: request.node.user_properties.append(("simulation", asdict(counts)))
