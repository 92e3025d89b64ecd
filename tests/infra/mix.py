"""A run through every function that makes each of them ask for all that it ever does.

Each step is there for a request that no other makes. Deaths stand for what a crash, a timeout or a deployment leaves
half done: whoever comes by next finishes it, and has to be allowed to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from functions.unrouted.handler import handler as unrouted
from shared.domain.batch import MAX_ENTRIES
from tests.infra.deployment import BEHIND_ENDPOINT, LEASE_S, Deployment, Vault


@dataclass(frozen=True)
class Sizes:
    """`many` rows are more than one transaction holds, so are the `most` reflections that a commit may have.

    `limits` of the adapter are lowered, so that little data takes as many steps as much of it does, and no pauses.
    """

    many: int
    most: int
    limits: Mapping[str, float]


FULL = Sizes(120, MAX_ENTRIES, {})
SMALL = Sizes(10, 8, {
    "settling.STEP_ROOM": 5, "undoing.UNDO_ROOM": 5, "staging.ROOM": 4, "staging.MAX_OPERATIONS": 8,
    "table.FIRST_PAUSE": 0.0, "table.FIRST_TRIES": 0,
})  # fmt: skip


def play(deployment: Deployment, monkeypatch: pytest.MonkeyPatch, sizes: Sizes) -> None:
    for name, limit in sizes.limits.items():
        monkeypatch.setattr(f"shared.adapters.dynamodb.{name}", limit)
    recorder = deployment.recorder
    for _ in range(2):
        # The second finds what the first made.
        deployment.provision(monkeypatch)
    for path in ("/", "/health", "/openapi.json", "/.well-known/oauth-protected-resource"):
        assert deployment.anybody().get(path).status == 200
    with recorder.inside("unrouted"):
        assert unrouted({"rawPath": "/nothing"})["statusCode"] == 404
    keys(deployment)
    reading(deployment, deployment.vault())
    reading(deployment, deployment.vault(BEHIND_ENDPOINT))
    large_writes(deployment, sizes)
    leases(deployment)
    half_settled(deployment, sizes)
    half_undone(deployment, sizes)
    moving(deployment)
    deleting(deployment)
    agents(deployment)
    agents(deployment, BEHIND_ENDPOINT)
    indexing(deployment, monkeypatch)


def keys(deployment: Deployment) -> None:
    vault = deployment.vault()
    vault.post("/v1/keys", {"name": "elsewhere"}, 201)
    minted = vault.post("/v1/keys", {"vault": "same"}, 201)
    vault.get("/v1/keys")
    vault.delete(f"/v1/keys/{minted['key_id']}")


def reading(deployment: Deployment, vault: Vault) -> None:
    """Once what was said is indexed, and once before that, when it is found all the same."""
    vault.ingest(3, X_Session_ID="a")
    deployment.deliver()
    vault.commit(vault.checkout()["batch_id"])
    vault.ingest(3, X_Session_ID="a")
    for _ in range(2):
        vault.post("/v1/memory/search", {"query": "what was said"})
        vault.post("/v1/memory/prepare", {"messages": [{"role": "user", "content": "what was said"}]})
        vault.post("/v1/memory/date-search", {"from": "2020-01-01", "query": "what was said"})
        vault.post("/v1/memory/date-search", {"from": "2020-01-01", "order": "oldest_first"})
        vault.post("/v1/memory/warmup")
        vault.get("/v1/memory/stats")
        vault.get("/v1/account/usage")
        for row in exported(vault):
            vault.post("/v1/memory/inspect", {"memory_id": row["id"]})
        deployment.deliver()


def large_writes(deployment: Deployment, sizes: Sizes) -> None:
    vault = deployment.vault()
    vault.ingest(sizes.many)
    vault.ingest(1, Idempotency_Key="small")
    vault.ingest(1, Idempotency_Key="small")
    line = {"role": "user", "content": "from a file"}
    vault.call("POST", "/v1/memory/upload", [line])
    vault.call("POST", "/v1/memory/upload", [line] * sizes.many)
    for finisher in ("ingest", "checkout", "indexer"):
        vault = deployment.vault()
        deployment.passed_over()
        with deployment.recorder.dying(after=1):
            vault.ingest(sizes.many, Idempotency_Key="large")
        if finisher == "ingest":
            vault.ingest(sizes.many, Idempotency_Key="large")
        elif finisher == "checkout":
            vault.checkout()
        else:
            deployment.deliver()


def leases(deployment: Deployment) -> None:
    vault = deployment.vault()
    vault.ingest(2)
    batch = vault.checkout()["batch_id"]
    vault.batch("renew", batch)
    vault.batch("release", batch)
    batch = vault.checkout()["batch_id"]
    later(deployment)
    vault.commit(batch, status=409)
    # Another expired lease is fenced by the next checkout.
    vault.checkout()
    later(deployment)
    batch = vault.checkout()["batch_id"]
    vault.commit(batch)
    vault.commit(batch)
    vault.batch("reopen", batch)
    batch = vault.checkout()["batch_id"]
    later(deployment)
    vault.batch("renew", batch, 409)
    vault.batch("release", batch)


def half_settled(deployment: Deployment, sizes: Sizes) -> None:
    """A commit that died, after its commit point or when its reflections were written in part, finished by others."""
    for after, finish in (
        (1, "checkout"),
        (1, "commit"),
        (1, "reopen"),
        (2, "inspect"),
        (2, "export"),
        (2, "indexer"),
    ):
        vault = deployment.vault()
        vault.ingest(sizes.many)
        count = sizes.most if finish == "inspect" else 2
        batch = vault.checkout()["batch_id"]
        deployment.passed_over()
        with deployment.recorder.dying(after):
            vault.commit(batch, count)
        if finish == "checkout":
            later(deployment)
            vault.checkout()
        elif finish == "commit":
            vault.commit(batch, count)
        elif finish == "reopen":
            vault.batch("reopen", batch)
        elif finish == "indexer":
            deployment.deliver()
        elif finish == "inspect":
            written = vault.post("/v1/memory/date-search", {"from": "2020-01-01", "tiers": [2]})["memories"]
            vault.post("/v1/memory/inspect", {"memory_id": written[0]["id"]})
        else:
            exported(vault)


def half_undone(deployment: Deployment, sizes: Sizes) -> None:
    for finish in ("reopen", "inspect", "export", "checkout", "indexer"):
        vault = deployment.vault()
        vault.ingest(sizes.many)
        batch = vault.checkout()["batch_id"]
        # The second step of undoing still removes reflections.
        vault.commit(batch, sizes.most)
        deployment.passed_over()
        died = 1 if finish in ("inspect", "export") else 2
        with deployment.recorder.dying(died):
            vault.batch("reopen", batch)
        if finish == "reopen":
            vault.batch("reopen", batch)
        elif finish == "inspect":
            raw = vault.post("/v1/memory/date-search", {"from": "2020-01-01", "tiers": [1]})["memories"]
            vault.post("/v1/memory/inspect", {"memory_id": raw[0]["id"]})
        elif finish == "export":
            exported(vault)
        elif finish == "checkout":
            vault.checkout(2)
        else:
            deployment.deliver()


def moving(deployment: Deployment) -> None:
    deployment.passed_over()
    source = deployment.vault()
    source.ingest(3, X_Session_ID="a")
    source.commit(source.checkout()["batch_id"])
    rows = exported(source)
    target = deployment.vault()
    # What the empty vault keeps of its past goes when the import takes its place.
    target.post("/v1/memory/delete-ids", {"ids": target.ingest(1, Idempotency_Key="once")["ids"]})
    target.post("/v1/memory/import", rows[:2])
    target.post("/v1/memory/import", rows[1:])
    target.post("/v1/memory/import?finish=true", rows[-1:])
    target.post("/v1/memory/import?finish=true", rows[-1:])
    source.post("/v1/memory/import", [{**rows[0], "id": "00000000-0000-7000-8000-000000000001"}], 409)


def deleting(deployment: Deployment) -> None:
    vault = deployment.vault()
    ids = vault.ingest(3, X_Session_ID="a")["ids"]
    vault.post("/v1/memory/delete-ids", {"ids": ids[:1]})
    vault.commit(vault.checkout()["batch_id"])
    vault.post("/v1/memory/delete-ids", {"ids": ids[1:2]})
    vault.ingest(1, X_Session_ID="a")
    deployment.deliver()
    vault.delete("/v1/memory", X_Session_ID="a")
    vault.ingest(1)
    deployment.deliver()
    vault.delete("/v1/memory?reset=true")
    # Had the deletion died after its first step, the indexer would have to remove the rest.
    vault.ingest(3)
    assert deployment.backend.directory.next_epoch(vault.vault_id, unbind=False) > 1
    deployment.deliver()


def agents(deployment: Deployment, model: str | None = None) -> None:
    """All tools of `/mcp`: one function that asks for what the functions of ten routes do."""
    vault = deployment.vault(model)
    for number in range(3):
        vault.tool("store_memory", {"text": f"what was said, number {number}", "request_key": f"k-{number}"})
    deployment.deliver()
    batch = vault.tool("consolidate_memories")["batch_id"]
    later(deployment)
    vault.tool("consolidate_memories")
    entries = [{"text": "what it means", "importance": 7}]
    vault.tool("commit_reflections", {"batch_id": batch, "entries": entries}, error=True)
    later(deployment)
    batch = vault.tool("consolidate_memories")["batch_id"]
    vault.tool("commit_reflections", {"batch_id": batch, "entries": entries})
    vault.tool("store_memory", {"text": "what was said last"})
    found = vault.tool("search_memories", {"query": "what was said"})["memories"]
    vault.tool("search", {"query": "what was said"})
    vault.tool("date_search_memories", {"from": "2020-01-01"})
    vault.tool("date_search_memories", {"from": "2020-01-01", "query": "what was said"})
    for row in found:
        vault.tool("inspect_memory", {"memory_id": row["id"]})
        vault.tool("fetch", {"id": row["id"]})
    vault.tool("memory_status")
    for uri in ("memory://vault/stats", "memory://vault/recent"):
        vault.resource(uri)
    deployment.deliver()
    vault.resource("memory://vault/stats")
    vault.tool("search_memories", {"query": "what was said"})
    vault.tool("delete_memories", {"ids": [found[0]["id"]]})
    deployment.deliver()
    vault.tool("forget_all_memories", {"confirmation": "DELETE ALL MEMORIES"})


def indexing(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = deployment.vault()
    vault.ingest(2)
    with deployment.refusing(monkeypatch):
        assert deployment.deliver() == []
    vault.ingest(1)
    # What the schedule sends.
    assert deployment.index({"source": "aws.events"}) == []


def later(deployment: Deployment) -> None:
    """When every lease has run out."""
    deployment.clock.ahead_ms += 2 * LEASE_S * 1000


def exported(vault: Vault) -> list[Any]:
    return [json.loads(line) for line in vault.get("/v1/memory/export?limit=5000").body.splitlines()]
