"""A table restored to an earlier moment is served in place of the lost one, at the same address, and given up vault."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.index.__main__ import main as index
from infra.local.account import Account
from infra.variables import variables
from shared.domain import keys
from tests.api.client import Client

pytestmark = pytest.mark.xdist_group("deployed")

SEARCH, STATS = "/v1/memory/search", "/v1/memory/stats"
TEXTS = ("the heron stands on the weir", "an owl sleeps by day", "nobody saw the fox", "an otter swam past the heron")
RESTORED = "strata-emulator-restored"
SECONDS = 120.0


@pytest.fixture
def restoring(deployed: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Account]:
    """The deployment, which serves its own table again at the end."""
    told = variables(deployed.environment, deployed.environment.table_name, deployed.search_url)
    for name, value in {**told, "STRATA_AWS_ENDPOINT": deployed.emulator.url}.items():
        monkeypatch.setenv(name, value)
    yield deployed
    deployed.deploy(deployed.synthesise(tmp_path / "own"))
    assert index(["rebuild"]) == 0


def vault_of_its_own(client: Client) -> Client:
    """With a key that the server made."""
    return client.using(client.post("/v1/keys", {"name": "of the vault", "scopes": sorted(keys.SCOPES)}).json["key"])


def answers(client: Client) -> list[Any]:
    asked = ("heron", "who sleeps by day?", "fox and otter", "birds")
    found = [client.post(SEARCH, {"query": query}).json["memories"] for query in asked]
    return [[(row["id"], row["content"], pytest.approx(row["score"], abs=1e-3)) for row in rows] for rows in found]


def until(client: Client, vectors: int) -> None:
    stats: Any = None
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        stats = client.get(STATS).json
        if stats["totalVectors"] == vectors and not stats["waiting_vectors"]:
            return
        time.sleep(0.5)
    raise AssertionError(f"the index does not catch up: {stats}")


def restore(deployed: Account) -> str:
    """Make a table of what the deployment's own one holds, with a stream; the ARN of that."""
    dynamodb, own = deployed.client("dynamodb"), deployed.environment.table_name
    dynamodb.restore_table_to_point_in_time(SourceTableName=own, TargetTableName=RESTORED, UseLatestRestorableTime=True)
    dynamodb.get_waiter("table_exists").wait(TableName=RESTORED)
    dynamodb.update_table(
        TableName=RESTORED, StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    )
    return str(dynamodb.describe_table(TableName=RESTORED)["Table"]["LatestStreamArn"])


def test_a_restored_table_is_served_at_the_same_address(client: Client, restoring: Account, tmp_path: Path) -> None:
    vault = vault_of_its_own(client)
    vault.ingest(*TEXTS)
    _, (reflection,) = vault.consolidate("Of birds and of beasts at the weir.")
    until(vault, 5)
    before, kept = answers(vault), vault.export()
    assert all(len(rows) == 5 for rows in before)
    stream = restore(restoring)
    # The accident: memories are gone, from the table and from the index.
    assert vault.delete("/v1/memory").json["deleted"] is True
    assert vault.export() == []
    assert answers(vault) == [[], [], [], []]

    served = replace(restoring, described={**restoring.described, "table_stream": stream})
    served.deploy(served.synthesise(tmp_path / "restored"))
    assert index(["rebuild", "--table", RESTORED]) == 0
    assert served.url == restoring.url
    assert served.settings().table == RESTORED
    assert vault.export() == kept
    until(vault, 5)
    assert answers(vault) == before
    inspected = vault.post("/v1/memory/inspect", {"memory_id": reflection}).json
    assert [each["content"] for each in inspected["sources"]] == list(TEXTS)
    # Its stream is followed: what is written now gets its vector.
    vault.ingest("a kingfisher came")
    until(vault, 6)
    assert vault.post(SEARCH, {"query": "kingfisher", "limit": 1}).json["memories"][0]["content"] == "a kingfisher came"
