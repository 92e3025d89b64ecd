"""Real servers: one for each test that asks for its own, and one that tests of clients share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import Server


@pytest.fixture
def server_settings() -> dict[str, str]:
    """``STRATA_…`` variables of `server`; a test module that needs others overrides this fixture."""
    return {"STRATA_EMBEDDER": "hashed-64"}


@pytest.fixture
def server(tmp_path: Path, server_settings: dict[str, str]) -> Iterator[Server]:
    """A running server with a data folder of its own. It must stop cleanly when the test is over."""
    with Server(tmp_path, server_settings) as running:
        yield running


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server for tests that keep to a vault of their own: see `key`."""
    with Server(tmp_path_factory.mktemp("server"), {"STRATA_EMBEDDER": "hashed-64"}) as running:
        yield running


@pytest.fixture
def key() -> str:
    """A key that nobody used before: it opens an empty vault."""
    return f"mk_{uuid.uuid4()}"
