"""A vault is a wall: what lives in another vault answers exactly as what does not exist."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Answer, Client

NOBODY, NO_BATCH = "0199d1f0-0000-7000-8000-000000000001", "cb_" + "0" * 32
ENTRIES = [{"text": "mine now", "importance": 5}]


def visible(answer: Answer) -> tuple[int, bytes, dict[str, str]]:
    return answer.status, answer.body, {k: v for k, v in answer.headers.items() if k != "X-Request-Id"}


@pytest.fixture
def theirs(client: Client) -> dict[str, str]:
    owner = client.using("mk_owner")
    owner.ingest("consolidated")
    settled, (reflection,) = owner.consolidate("a reflection")
    (raw,) = owner.ingest("leased")
    leased = owner.post("/v1/memory/consolidate/checkout", {"tier": 1}).json["batch_id"]
    key_id = owner.get("/v1/keys").json["keys"][0]["key_id"]
    return {"raw": raw, "reflection": reflection, "settled": settled, "leased": leased, "key": key_id}


@pytest.mark.parametrize("kind", ["raw", "reflection"])
def test_ids_of_others_look_unknown(kind: str, client: Client, theirs: dict[str, str]) -> None:
    stranger = client.using("mk_stranger")

    def tried(memory_id: str) -> list[Answer]:
        return [
            stranger.post("/v1/memory/inspect", {"memory_id": memory_id}),
            stranger.post("/v1/memory/delete-ids", {"ids": [memory_id]}),
        ]

    assert [visible(answer) for answer in tried(theirs[kind])] == [visible(answer) for answer in tried(NOBODY)]
    assert len(client.using("mk_owner").export()) == 3


@pytest.mark.parametrize("kind", ["settled", "leased"])
def test_batches_of_others_look_unknown(kind: str, client: Client, theirs: dict[str, str]) -> None:
    stranger, owner = client.using("mk_stranger"), client.using("mk_owner")
    before = owner.export()

    def tried(batch_id: str) -> list[Answer]:
        bodies: dict[str, dict[str, Any]] = {verb: {} for verb in ("release", "renew", "reopen")}
        bodies["commit"] = {"entries": ENTRIES}
        return [
            stranger.post(f"/v1/memory/consolidate/{verb}", {"batch_id": batch_id} | body)
            for verb, body in bodies.items()
        ]

    answers = tried(theirs[kind])
    assert [answer.status for answer in answers] == [404] * 4
    assert [visible(answer) for answer in answers] == [visible(answer) for answer in tried(NO_BATCH)]
    assert owner.export() == before
    committed = owner.post("/v1/memory/consolidate/commit", {"batch_id": theirs["leased"], "entries": ENTRIES})
    assert committed.status == 200


def test_keys_of_others_look_unknown(client: Client, theirs: dict[str, str]) -> None:
    stranger = client.using("mk_stranger")
    assert visible(stranger.delete(f"/v1/keys/{theirs['key']}")) == visible(stranger.delete(f"/v1/keys/{NOBODY}"))
    assert theirs["key"] not in stranger.get("/v1/keys").body.decode()
    assert client.using("mk_owner").get("/v1/memory/stats").status == 200


def test_reading_finds_nothing_of_others(client: Client, theirs: dict[str, str]) -> None:
    stranger, newcomer = client.using("mk_stranger"), client.using("mk_newcomer")

    def read(who: Client) -> list[bytes]:
        return [
            who.post("/v1/memory/search", {"query": "consolidated leased reflection", "limit": 500}).body,
            who.post("/v1/memory/prepare", {"messages": [{"role": "user", "content": "reflection"}]}).body,
            who.post("/v1/memory/date-search", {"from": "2000-01-01", "to": "2100-01-01"}).body,
            who.post("/v1/memory/consolidate/checkout", {"tier": 1}).body,
            who.get("/v1/memory/export").body,
        ]

    assert read(stranger) == read(newcomer)
    assert b"leased" not in b"".join(read(stranger)).replace(b'"leased":0', b"")


def test_scores_do_not_move_with_another_vault(client: Client) -> None:
    mine = client.using("mk_mine")
    mine.ingest("The harbour lies in fog.", "Fog lifts at noon.", "Ann paints boats.")
    before = mine.post("/v1/memory/search", {"query": "fog in the harbour"}).json["memories"]
    client.using("mk_other").ingest(*["fog fog harbour"] * 50)
    assert mine.post("/v1/memory/search", {"query": "fog in the harbour"}).json["memories"] == before


def test_emptying_one_vault_leaves_the_others(client: Client, theirs: dict[str, str]) -> None:
    before = client.using("mk_owner").export()
    assert client.using("mk_stranger").delete("/v1/memory?reset=true").status == 200
    assert client.using("mk_owner").export() == before
