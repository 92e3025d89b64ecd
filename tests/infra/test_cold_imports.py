"""What a function loads before it answers its first request: every module of it is paid for at every cold start."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from infra.bundling import PLAIN, SEARCH
from infra.functions import FUNCTIONS
from tests.infra.cold import Start, floor_start, handler_start

pytestmark = [pytest.mark.slow, pytest.mark.loopback]

MOST = 1.15
"""Modules that a handler may import, in those of a client of DynamoDB, pydantic, and Powertools' Logger and Metrics."""
MOST_OF_OWN = 80
"""Modules of the project when a request can be served. They are small; this notices when one draws in many."""
OWN = ("functions", "shared")

Unpacked = Callable[[str], Path]


@pytest.fixture(scope="module")
def floor(unpacked: Unpacked) -> Callable[[str], Start]:
    return cache(lambda kind: floor_start(unpacked(kind)))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_handler_loads_little_more_than_every_function_needs(
    name: str, unpacked: Unpacked, floor: Callable[[str], Start]
) -> None:
    kind = SEARCH if FUNCTIONS[name].searches else PLAIN
    least, found = floor(kind).ready, handler_start(unpacked(kind), name)
    own = {module for module in found.ready if module.split(".")[0] in OWN}
    print(f"{name}: imports {len(found.imported)}, serves with {len(found.ready)} modules, floor {len(least)}")
    assert len(found.imported) <= MOST * len(least)
    # Not one module of anybody else's: searching functions load their client when they search.
    assert found.ready - own - least == set()
    assert len(own) <= MOST_OF_OWN
    assert f"functions.{name}.handler" in own


@pytest.mark.parametrize(("kind", "expected"), [(PLAIN, set()), (SEARCH, {"numpy", "opensearchpy", "Stemmer"})])
def test_functions_that_do_not_search_carry_nothing_for_it(kind: str, expected: set[str], unpacked: Unpacked) -> None:
    carried = {path.name.split(".")[0] for path in unpacked(kind).iterdir()}
    assert carried & {"numpy", "opensearchpy", "Stemmer"} == expected
