"""Published clients of the protocol against the deployed API."""

from __future__ import annotations

import uuid
from pathlib import Path

import anyio
import pytest

from infra.local.account import Account
from tests.e2e.mcp_inspector import Inspector, inspect
from tests.e2e.mcp_walk import REVISIONS, over_http, walk

pytestmark = pytest.mark.xdist_group("deployed")


@pytest.fixture
def key() -> str:
    """A key that nobody used before: it opens an empty vault."""
    return f"mk_{uuid.uuid4()}"


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_official_client_uses_everything(deployed: Account, key: str, revision: str) -> None:
    async def run() -> None:
        async with over_http(deployed.url, key, revision) as client:
            await walk(client, revision)

    anyio.run(run)


def test_the_inspector_uses_everything(deployed: Account, key: str, tmp_path: Path) -> None:
    inspect(Inspector(deployed.url, key, "modern", tmp_path))
