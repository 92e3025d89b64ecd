"""Every test of a use case gets a server of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.usecases.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()
