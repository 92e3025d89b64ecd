from __future__ import annotations

from itertools import count

import pytest

from tests.dynamodb.rig import Rig, memory_rig, ministack_rig
from tests.dynamodb.table import MemoryTable

NUMBERS = count(1)


@pytest.fixture(
    params=["memory", pytest.param("ministack", marks=[pytest.mark.slow, pytest.mark.loopback])],
)
def rig(request: pytest.FixtureRequest) -> Rig:
    """An empty table, in memory and in ministack."""
    if request.param == "memory":
        return memory_rig()
    return ministack_rig(request.getfixturevalue("ministack"), f"strata-{next(NUMBERS)}")


@pytest.fixture
def memory() -> Rig:
    """An empty table in memory: for what only DynamoDB's documents say."""
    return memory_rig()


@pytest.fixture
def table(memory: Rig) -> MemoryTable:
    assert isinstance(memory.client, MemoryTable)
    return memory.client
