"""The fixture for tests that need ministack: import it into a ``conftest.py``."""

from __future__ import annotations

import pytest

from tests.emulator.ministack import Ministack, shared


@pytest.fixture(scope="session")
def ministack() -> Ministack:
    """One process per test worker, started by the first test that asks."""
    return shared()
