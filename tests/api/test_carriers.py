"""Where keys travel, and what stands beside them."""

from __future__ import annotations

import pytest

from tests.api.client import Client

STATS = "/v1/memory/stats"


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Memory-Key": "mk_one"},
        {"Authorization": "Bearer mk_one"},
        {"authorization": "bearer mk_one"},
        {"AUTHORIZATION": "BEARER   mk_one"},
        {"x-api-key": "mk_one"},
        {"x-goog-api-key": "mk_one"},
        {"Authorization": "Bearer sk-provider", "X-Memory-Key": "mk_one"},
        {"Authorization": "Bearer sk-provider", "x-api-key": "mk_one"},
        {"Authorization": "Basic bWtfb25l", "x-goog-api-key": "mk_one"},
        {"x-api-key": "sk-ant-provider", "x-goog-api-key": "mk_one"},
        {"X-Memory-Key": "mk_one", "Authorization": "Bearer mk_two", "x-api-key": "mk_two"},
        {"Authorization": "Bearer mk_one", "x-api-key": "mk_two", "x-goog-api-key": "mk_two"},
        {"X-Memory-Key": "mk_one:read", "Authorization": "Bearer mk_two"},
    ],
)
def test_the_first_carrier_with_a_memory_key_counts(headers: dict[str, str], client: Client) -> None:
    client.using("mk_one").ingest("only in the first vault")
    client.using("mk_two").ingest("the second", "vault holds", "three")
    answer = client.using(None).get(STATS, headers=headers)
    assert (answer.status, answer.json["memories"]) == (200, 1)


def test_both_prefixes_open_vaults(client: Client) -> None:
    client.using("mk-dash").ingest("one")
    assert client.using("mk-dash").get(STATS).json["memories"] == 1
    assert client.using("mk_dash").get(STATS).json["memories"] == 0


@pytest.mark.parametrize("key", ["mk_" + "a" * 128, "mk_a", "mk-A.b_c-9"])
def test_well_formed_keys_open_a_vault_of_their_own(key: str, client: Client) -> None:
    assert client.using(key).get(STATS).status == 200


@pytest.mark.parametrize(
    "key", ["mk_" + "a" * 129, "mk_", "mk_ä", "mk_a/b", "mk_a,mk_b", "mk_a:READ", "mk_a:read:read"]
)
def test_malformed_keys_are_refused(key: str, client: Client) -> None:
    assert client.using(None).get(STATS, headers={"X-Memory-Key": key}).status == 401


def test_no_answer_shows_a_key(client: Client) -> None:
    secret = "mk_a-secret-nobody-may-see-1234"
    mine = client.using(secret)
    mine.ingest("text")
    answers = [
        mine.get(STATS),
        mine.get("/v1/keys"),
        mine.post("/v1/memory/warmup"),
        mine.get("/v1/account/usage"),
        mine.post("/v1/memory/upload", b'{"content": "line"}\n', content_type="text/plain"),
        mine.post("/v1/memory/search", {"query": 1}),
        mine.delete("/v1/memory"),
    ]
    assert all(secret.encode() not in answer.body for answer in answers)


def test_session_in_the_body_wins_over_the_header(client: Client) -> None:
    header = {"X-Session-ID": "from header"}
    body = {"messages": [{"role": "user", "content": "one"}]}
    assert client.post("/v1/memory/ingest", body, headers=header).json["session_id"] == "from header"
    both = client.post("/v1/memory/ingest", body | {"session_id": "from body"}, headers=header)
    assert both.json["session_id"] == "from body"
    assert client.post("/v1/memory/ingest", body | {"session_id": ""}).json["session_id"] is None


def test_session_names_are_any_text_up_to_512_characters(client: Client) -> None:
    body = {"messages": [{"role": "user", "content": "one"}]}
    for name in ("%20é", "🎉" * 512, " a b ", "/../"):
        assert client.post("/v1/memory/ingest", body | {"session_id": name}).json["session_id"] == name
    too_long = client.post("/v1/memory/ingest", body | {"session_id": "a" * 513})
    assert (too_long.status, too_long.fields) == (400, ["session_id"])
    header = client.post("/v1/memory/ingest", body, headers={"X-Session-ID": "a" * 513})
    assert (header.status, header.fields) == (400, ["X-Session-ID"])


def test_an_empty_session_never_empties_the_vault(client: Client) -> None:
    client.ingest("still here")
    assert client.delete("/v1/memory", headers={"X-Session-ID": ""}).status == 400
    assert client.call("DELETE", "/v1/memory", {"session_id": ""}).status == 400
    assert client.get(STATS).json["memories"] == 1


def test_a_session_in_the_body_of_a_deletion_counts(client: Client) -> None:
    client.ingest("kept")
    client.ingest("of a session", headers={"X-Session-ID": "s"})
    assert client.call("DELETE", "/v1/memory", {"session_id": "s"}).status == 200
    assert [row["content"] for row in client.export()] == ["kept"]


def test_unknown_embedding_model_is_refused_with_the_known_ones(client: Client) -> None:
    body = {"messages": [{"role": "user", "content": "one"}]}
    for answer in (
        client.post("/v1/memory/ingest", body | {"embeddings": "nobody/knows"}),
        client.post("/v1/memory/ingest", body, headers={"X-Embedding-Model": "nobody/knows"}),
    ):
        assert answer.status == 400
        assert "hashed-64" in answer.json["hint"]
    wins = client.post("/v1/memory/ingest", body | {"embeddings": "hashed-64"}, headers={"X-Embedding-Model": "nobody"})
    assert wins.status == 202


def test_another_model_on_a_vault_with_rows_is_a_conflict(client: Client) -> None:
    client.ingest("bound to the default")
    answer = client.post("/v1/memory/search", {"query": "bound", "embeddings": "minilm-l6-v2"})
    assert (answer.status, answer.code) == (409, "embedding_model_mismatch")
    assert "reset=true" in answer.json["hint"]


def test_every_answer_names_its_request(client: Client) -> None:
    answers = [client.get("/"), client.get("/nowhere"), client.call("PUT", "/v1/keys"), client.get(STATS)]
    answers += [client.using(None).get(STATS), client.post("/v1/memory/search", b"{")]
    assert len({answer.headers["X-Request-Id"] for answer in answers}) == len(answers)
