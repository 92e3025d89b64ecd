"""One table for all cells of a test worker, on ministack and in memory, and the sum of the cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.dynamodb.table import MemoryTable
from tests.emulator import ministack
from tests.faults.local import local_client
from tests.faults.stage import FaultStage

Tally = Callable[..., None]


@pytest.fixture(scope="session")
def stage() -> Iterator[FaultStage]:
    with ministack.start() as running:
        yield FaultStage(running.client("dynamodb"), running.client("dynamodb"))


@pytest.fixture(scope="session")
def in_memory() -> FaultStage:
    """The same requests of the same client, answered in this process."""
    table = MemoryTable()
    return FaultStage(local_client(table), table)


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """Takes a test's cells into the sums."""
    return lambda **counts: request.node.user_properties.append(("faults", counts))
