"""The life of keys, what they use, and what a session, a model or an Idempotency-Key changes."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from typing import Any

import pytest

from shared import bootstrap
from tests.api.client import Client

INGEST, SEARCH, UPLOAD = "/v1/memory/ingest", "/v1/memory/search", "/v1/memory/upload"
PREPARE, DATES, INSPECT = "/v1/memory/prepare", "/v1/memory/date-search", "/v1/memory/inspect"
CHECKOUT, COMMIT = "/v1/memory/consolidate/checkout", "/v1/memory/consolidate/commit"
STATS, USAGE, VAULT = "/v1/memory/stats", "/v1/account/usage", "/v1/memory"
ALL_SCOPES = {
    "memories:read",
    "memories:write",
    "memories:reflect",
    "memories:delete",
    "memories:curate",
    "keys:admin",
}


def told(client: Client, text: str, session: str | None = None, header: str | None = None) -> str:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": text}]}
    if session is not None:
        body["session_id"] = session
    answer = client.post(INGEST, body, headers={} if header is None else {"X-Session-ID": header})
    assert answer.status == 202, answer.body
    return str(answer.json["ids"][0])


def contents(client: Client) -> set[str]:
    return {row["content"] for row in client.export()}


# Sessions


@pytest.fixture
def sessions(client: Client) -> Client:
    told(client, "oak of nobody")
    told(client, "oak of one", "one")
    told(client, "oak of two", header="two")
    told(client, "oak of three", "three", header="one")
    return client


def test_the_body_names_the_session_before_the_header(sessions: Client) -> None:
    assert {row["content"]: row["session_id"] for row in sessions.export()} == {
        "oak of nobody": None,
        "oak of one": "one",
        "oak of two": "two",
        "oak of three": "three",
    }


@pytest.mark.parametrize(
    ("body", "header", "seen"),
    [
        (None, None, {"nobody", "one", "two", "three"}),
        ("one", None, {"nobody", "one"}),
        (None, "two", {"nobody", "two"}),
        ("three", "two", {"nobody", "three"}),
        ("never used", None, {"nobody"}),
        ("ONE", None, {"nobody"}),
    ],
)
def test_who_sees_what(body: str | None, header: str | None, seen: set[str], sessions: Client) -> None:
    headers = {} if header is None else {"X-Session-ID": header}
    more = {} if body is None else {"session_id": body}
    found = sessions.post(SEARCH, {"query": "oak", **more}, headers=headers).json["memories"]
    assert {row["content"].split()[-1] for row in found} == seen
    assert {row.get("session_id") for row in found} == {None if name == "nobody" else name for name in seen}
    messages = [{"role": "user", "content": "oak"}]
    prepared = sessions.post(PREPARE, {"messages": messages, **more}, headers=headers).json
    assert set(re.findall(r"oak of (\w+)", prepared["context"])) == seen
    # These always span the vault.
    dated = sessions.post(DATES, {"from": "2000-01-01", **more}, headers=headers).json["memories"]
    asked = sessions.post(DATES, {"from": "2000-01-01", "query": "oak", **more}, headers=headers).json["memories"]
    assert len(dated) == len(asked) == 4
    for row in dated:
        assert sessions.post(INSPECT, {"memory_id": row["id"], **more}, headers=headers).status == 200
    assert sessions.post(CHECKOUT, {"tier": 1, **more}, headers=headers).json["count"] == 4
    debt = sessions.post(SEARCH, {"query": "oak", **more}, headers=headers).json["reflection"]
    assert debt["unconsolidated"]["raw"]["units"] == 4


def test_reflections_are_seen_from_every_session(sessions: Client) -> None:
    sessions.consolidate("oak reflected")
    for session in ("one", "never used"):
        found = sessions.post(SEARCH, {"query": "oak", "session_id": session}).json["memories"]
        assert "oak reflected" in {row["content"] for row in found}


def test_a_session_is_deleted_alone_and_its_raw_rows_only(sessions: Client) -> None:
    _, made = sessions.consolidate("oak reflected")
    gone = sessions.delete(VAULT, headers={"X-Session-ID": "one"}).json
    assert (gone["deleted"], gone["reset"], gone["sessionCleared"]) == (True, False, True)
    assert contents(sessions) == {"oak of nobody", "oak of two", "oak of three", "oak reflected"}
    shown = sessions.post(INSPECT, {"memory_id": made[0]}).json
    assert (shown["sources_total"], shown["sources_deleted"], len(shown["sources"])) == (4, 1, 3)
    assert sessions.delete(VAULT, headers={"X-Session-ID": "never used"}).json["sessionCleared"] is True
    assert sessions.delete(VAULT, headers={"X-Session-ID": ""}).status == 400
    assert len(contents(sessions)) == 4
    assert sessions.delete(VAULT).json["deleted"] is True
    assert contents(sessions) == set()


# Embedding models


def test_a_vault_is_bound_at_its_first_write(client: Client) -> None:
    default = client.get(STATS).json["embedding_model"]
    assert default == "hashed-64"
    named = client.using("mk_named")
    body = {"messages": [{"role": "user", "content": "a"}], "embeddings": "wordllama-256"}
    assert named.post(INGEST, body).status == 202
    assert named.get(STATS).json["embedding_model"] == "wordllama-256"
    told(named, "nothing named: the vault's own")
    for method, path, sent in (
        ("POST", INGEST, {"messages": [{"role": "user", "content": "b"}]}),
        ("POST", SEARCH, {"query": "a"}),
        ("POST", PREPARE, {"messages": [{"role": "user", "content": "a"}]}),
        ("POST", DATES, {"from": "2000-01-01", "query": "a"}),
        ("POST", CHECKOUT, {"tier": 1}),
    ):
        for where in ("body", "header"):
            more = {"embeddings": "hashed-64"} if where == "body" else {}
            headers = {"X-Embedding-Model": "hashed-64"} if where == "header" else {}
            answer = named.call(method, path, sent | more, headers=headers)
            assert (answer.status, answer.code) == (409, "embedding_model_mismatch"), (path, where)
            assert "DELETE /v1/memory?reset=true" in answer.json["hint"]
    unknown = named.post(SEARCH, {"query": "a", "embeddings": "text-embedding-9"})
    assert unknown.status == 400
    assert "hashed-64" in unknown.json["hint"]
    assert "wordllama-256" in unknown.json["hint"]
    assert contents(named) == {"a", "nothing named: the vault's own"}


def test_the_body_names_the_model_before_the_header(client: Client) -> None:
    body = {"messages": [{"role": "user", "content": "a"}], "embeddings": "wordllama-256"}
    assert client.post(INGEST, body, headers={"X-Embedding-Model": "hashed-64"}).status == 202
    assert client.get(STATS).json["embedding_model"] == "wordllama-256"


def test_only_a_reset_unbinds_the_model(client: Client) -> None:
    told(client, "a")
    other = {"X-Embedding-Model": "wordllama-256"}
    body = {"messages": [{"role": "user", "content": "b"}]}
    assert client.delete(VAULT).json["reset"] is False
    assert client.get(STATS).json["embedding_model"] == "hashed-64"
    assert client.delete(f"{VAULT}?reset=yes").status == 400
    assert client.delete(f"{VAULT}?reset=true").json["reset"] is True
    assert client.post(INGEST, body, headers=other).status == 202
    assert client.get(STATS).json["embedding_model"] == "wordllama-256"


# Idempotency


def test_a_key_covers_body_and_session_and_belongs_to_the_vault(client: Client) -> None:
    body = {"messages": [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]}
    key = {"Idempotency-Key": "k"}
    first = client.post(INGEST, body, headers=key).json
    for _ in range(2):
        again = client.post(INGEST, body, headers=key)
        assert (again.status, again.json["ids"], again.json["stored"]) == (202, first["ids"], 2)
    changed = {"messages": [{"role": "user", "content": "one"}]}
    skipped = {"messages": [{"role": "user", "content": ""}]}
    for other, headers in ((changed, key), (skipped, key), (body, key | {"X-Session-ID": "s"})):
        answer = client.post(INGEST, other, headers=headers)
        assert (answer.status, answer.code) == (409, "idempotency_mismatch")
    assert len(client.export()) == 2
    assert client.using("mk_other-vault").post(INGEST, body, headers=key).json["ids"] != first["ids"]
    assert client.get(USAGE).json["summary"]["operations"]["ingest"] == {"requests": 1, "tokens": 2}
    client.delete(VAULT)
    fresh = client.post(INGEST, body, headers=key).json
    assert not set(fresh["ids"]) & set(first["ids"])
    assert len(client.export()) == 2


def test_a_key_is_taken_by_a_request_that_stored_nothing_too(client: Client) -> None:
    key = {"Idempotency-Key": "k"}
    empty = {"messages": [{"role": "user", "content": "  "}]}
    for _ in range(2):
        answer = client.post(INGEST, empty, headers=key)
        assert (answer.status, answer.json["stored"], answer.json["ids"]) == (202, 0, [])
    other = client.post(INGEST, {"messages": [{"role": "user", "content": "a"}]}, headers=key)
    assert (other.status, other.code) == (409, "idempotency_mismatch")
    assert client.get(USAGE).json["summary"]["requestCount"] == 0


def test_a_key_lives_for_a_day(client: Client, backend: bootstrap.Embedded) -> None:
    body = {"messages": [{"role": "user", "content": "one"}]}
    key = {"Idempotency-Key": "k"}
    first = client.post(INGEST, body, headers=key).json["ids"]

    class Later:
        def __init__(self, ms: int) -> None:
            self.ms = ms

        def now_ms(self) -> int:
            return now + self.ms

    now = backend.services.clock.now_ms()
    day = 24 * 3_600_000
    for later, same in ((day - 60_000, True), (day + 60_000, False)):
        backend.services = replace(backend.services, clock=Later(later))
        ids = client.post(INGEST, body, headers=key).json["ids"]
        assert (ids == first) is same


def test_concurrent_requests_with_one_key_store_once(client: Client) -> None:
    for turn in range(5):
        body = {"messages": [{"role": "user", "content": f"{turn}.{number}"} for number in range(20)]}
        start = threading.Barrier(8)
        answers: list[tuple[int, tuple[str, ...]]] = []

        def work(
            body: dict[str, Any] = body,
            start: threading.Barrier = start,
            answers: list[tuple[int, tuple[str, ...]]] = answers,
            turn: int = turn,
        ) -> None:
            start.wait()
            answer = client.post(INGEST, body, headers={"Idempotency-Key": f"turn {turn}"})
            answers.append((answer.status, tuple(answer.json["ids"])))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 8
        assert len(set(answers)) == 1
        assert len(client.export()) == 20 * (turn + 1)


# Keys


def test_minting_listing_and_deleting(client: Client) -> None:
    told(client, "shared")
    new = client.post("/v1/keys", {"name": "new"}).json
    same = client.post("/v1/keys", {"name": "same", "vault": "same"}).json
    reader = client.post("/v1/keys", {"scopes": ["memories:read"], "vault": "same"}).json
    made = (new, same, reader)
    assert len({each["key"] for each in made}) == len({each["key_id"] for each in made}) == 3
    assert set(new["scopes"]) == ALL_SCOPES
    assert reader["scopes"] == ["memories:read"]
    assert contents(client.using(new["key"])) == set()
    assert contents(client.using(same["key"])) == contents(client.using(reader["key"])) == {"shared"}

    def listed(key: str | None) -> set[str]:
        answer = client.using(key).get("/v1/keys")
        assert not re.search(rb'mk[_-]|"key"|hash', answer.body)
        assert all(
            set(each) == {"key_id", "name", "scopes", "created_at", "last_used_at"} for each in answer.json["keys"]
        )
        return {each["key_id"] for each in answer.json["keys"]}

    own = listed(client.key) - {each["key_id"] for each in made}
    assert len(own) == 1
    assert listed(same["key"]) == own | {same["key_id"], reader["key_id"]}
    assert listed(new["key"]) == {new["key_id"]}
    assert client.using(new["key"]).delete(f"/v1/keys/{same['key_id']}").status == 404
    stranger = client.using("mk_stranger")
    assert stranger.delete(f"/v1/keys/{new['key_id']}").status == 404
    assert client.using(reader["key"]).get("/v1/keys").status == 403
    for each in made:
        assert client.delete(f"/v1/keys/{each['key_id']}").json == {"key_id": each["key_id"], "deleted": True}
        for _ in range(2):
            for suffix in ("", ":read", ":off"):
                answer = client.using(each["key"] + suffix).get(STATS)
                assert (answer.status, answer.code) == (401, "unauthorized")
    assert listed(client.key) == own


def test_a_deleted_key_stays_out_where_unknown_keys_open_vaults(client: Client) -> None:
    told(client, "mine")
    (own,) = client.get("/v1/keys").json["keys"]
    assert client.delete(f"/v1/keys/{own['key_id']}").status == 200
    for _ in range(2):
        assert client.get(STATS).status == 401
        assert client.post(INGEST, {"messages": [{"role": "user", "content": "a"}]}).status == 401


def test_unknown_keys_open_nothing_where_the_operator_says_so(client: Client, backend: bootstrap.Embedded) -> None:
    told(client, "mine")
    backend.services = replace(backend.services, policy=replace(backend.services.policy, auto_provision_keys=False))
    assert contents(client) == {"mine"}
    assert client.using("mk_never-seen").get(STATS).status == 401
    assert len(backend.stored()) == 1


def test_no_key_hands_on_what_it_lacks(client: Client) -> None:
    few = ["memories:read", "keys:admin"]
    limited = client.using(client.post("/v1/keys", {"scopes": few, "vault": "same"}).json["key"])
    assert set(limited.post("/v1/keys", {}).json["scopes"]) == set(few)
    refused = limited.post("/v1/keys", {"scopes": ["memories:write"]})
    assert (refused.status, refused.code) == (403, "insufficient_scope")
    assert "memories:write" in refused.json["error"]
    assert client.post("/v1/keys", {"scopes": ["memories:everything"]}).status == 400
    assert client.post("/v1/keys", {"scopes": []}).status == 400


@pytest.mark.parametrize(
    ("suffix", "reads", "writes", "deletes"),
    [("", 200, 202, 200), (":read", 200, 403, 403), (":write", 403, 202, 403), (":off", 403, 403, 403)],
)
def test_suffixes_narrow(suffix: str, reads: int, writes: int, deletes: int, client: Client) -> None:
    (own,) = client.ingest("a")
    narrowed = client.using(f"{client.key}{suffix}")
    assert narrowed.post(SEARCH, {"query": "a"}).status == reads
    assert narrowed.post(INSPECT, {"memory_id": own}).status == reads
    assert narrowed.post(INGEST, {"messages": [{"role": "user", "content": "b"}]}).status == writes
    assert narrowed.post("/v1/memory/delete-ids", {"ids": [own]}).status == deletes
    reader = client.post("/v1/keys", {"scopes": ["memories:read"], "vault": "same"}).json["key"]
    assert client.using(f"{reader}:write").post(INGEST, {"messages": []}).status == 403
    for unknown in (":", ":READ", ":read:write", ":delete", ":read "):
        assert client.using(f"{client.key}{unknown}x").get(STATS).status == 401


# Metering


def used(client: Client) -> dict[str, tuple[int, int]]:
    operations = client.get(USAGE).json["summary"]["operations"]
    return {name: (each["requests"], each["tokens"]) for name, each in operations.items()}


def test_what_each_operation_is_metered_as(client: Client) -> None:
    assert used(client) == {}
    assert client.post(CHECKOUT, {"tier": 1}).json["batch_id"] is None
    client.post(INSPECT, {"memory_id": "0199d1f0-0000-7000-8000-000000000001"})
    client.post(SEARCH, {"query": ""})
    client.get(STATS)
    assert used(client) == {}
    ids = client.ingest("a" * 40, "b" * 41)
    assert used(client) == {"ingest": (1, 10 + 11)}
    lines = b"\n".join(json.dumps({"content": "c" * 8}).encode() for _ in range(3))
    client.post(UPLOAD, lines, content_type="text/plain")
    assert used(client)["upload"] == (1, 6)
    client.post(SEARCH, {"query": "whatever", "limit": 500})
    assert used(client)["search"] == (1, 27)
    client.post(DATES, {"from": "2000-01-01"})
    assert used(client)["date_search"] == (1, 27)
    batch = client.post(CHECKOUT, {"tier": 1}).json
    assert batch["est_tokens"] == 27
    assert used(client)["checkout"] == (1, 27)
    assert client.post(CHECKOUT, {"tier": 1}).json["batch_id"] is None
    assert used(client)["checkout"] == (1, 27)
    commit = {"batch_id": batch["batch_id"], "entries": [{"text": "d" * 20, "importance": 5}]}
    made = client.post(COMMIT, commit).json["created"][0]["id"]
    for _ in range(3):
        assert client.post(COMMIT, commit).json["already_committed"] is True
    assert used(client)["commit"] == (1, 5)
    client.post(INSPECT, {"memory_id": made})
    assert used(client)["inspect"] == (1, 27)
    client.post("/v1/memory/delete-ids", {"ids": [*ids, "0199d1f0-0000-7000-8000-000000000001"]})
    assert used(client)["delete_ids"] == (1, 21)
    totals = client.get(USAGE).json
    assert totals["total_input_tokens"] == 21 + 6 + 5
    assert totals["total_requests"] == 8
    # Per key, not per vault.
    same = client.using(client.post("/v1/keys", {"vault": "same"}).json["key"])
    assert used(same) == {}
    same.post(SEARCH, {"query": "whatever"})
    assert list(used(same)) == ["search"]
    client.delete(VAULT)
    assert used(client)["ingest"] == (1, 21)
