"""``python -m infra.index``: what each command repairs, says and returns, on both back ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.index.__main__ import main
from infra.index.commands import COMMANDS, Run
from shared import bootstrap
from shared.adapters.opensearch.mapping import VERSION
from shared.bootstrap import Aws, Embedded
from shared.domain.errors import NotFound, Unavailable
from shared.domain.memory import Memory, VaultRef
from shared.ports.dead_letters import DeadLetter, Kind, Task
from shared.settings import Settings
from tests.api.backends import EMBEDDED_ONLY
from tests.api.client import Client

SEARCH, STATS = "/v1/memory/search", "/v1/memory/stats"
TEXTS = ("a heron on the weir", "the owl sleeps by day", "nobody saw the fox")


def command(name: str, backend: Embedded | Aws, vault_id: str | None = None) -> int:
    return COMMANDS[name](Run(backend, vault_id, backend if isinstance(backend, Aws) else None))


def answers(client: Client) -> list[list[tuple[str, float]]]:
    asked = ("heron", "an owl by day", "who saw it?")
    return [
        [(row["id"], row["score"]) for row in client.post(SEARCH, {"query": query}).json["memories"]] for query in asked
    ]


def test_a_healthy_index_is_left_alone(
    client: Client, backend: Embedded | Aws, capsys: pytest.CaptureFixture[str]
) -> None:
    client.ingest(*TEXTS)
    before = answers(client)
    (vault,) = backend.stored()
    assert command("create", backend) == 0
    capsys.readouterr()
    for vault_id in (vault.vault_id, None):
        assert command("reconcile", backend, vault_id) == 0
        said = capsys.readouterr().out
        assert f"vault {vault.vault_id} (epoch 1): 3 rows, 0 were missing, 0 were gone" in said
        assert "repaired" not in said
    assert answers(client) == before


def test_rows_that_nobody_indexed_are_found_by_reconcile(
    client: Client, backend: Embedded | Aws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = client.ingest(TEXTS[0])
    (vault,) = backend.stored()

    def lost(*_: object) -> None:
        raise Unavailable("down", code="search_unavailable", retry_after=1)

    with monkeypatch.context() as patched:
        patched.setattr(type(backend.index), "put_words", lost)
        patched.setattr(type(backend.index), "remove", lost)
        client.ingest(*TEXTS[1:])
        client.post("/v1/memory/delete-ids", {"ids": first})
    changes = backend.services.feed.pending(vault, 100)
    backend.services.feed.acknowledge(vault, changes)
    assert command("reconcile", backend) == 0
    said = capsys.readouterr().out
    assert "2 rows, 2 were missing, 1 were gone from the store" in said
    assert "2 vectors were missing; repaired" in said
    assert client.get(STATS).json["waiting_vectors"] == 0
    assert client.get(STATS).json["totalVectors"] == 2
    assert command("reconcile", backend) == 0
    assert "0 were missing, 0 were gone from the store, 0 were out of date" in capsys.readouterr().out


def test_rebuilding_changes_no_answer(
    client: Client, backend: Embedded | Aws, capsys: pytest.CaptureFixture[str]
) -> None:
    client.ingest(*TEXTS)
    other = client.using("mk_another-vault")
    other.ingest("a heron of somebody else")
    before = answers(client), answers(other)
    vaults = backend.stored()
    assert command("rebuild", backend, vaults[0].vault_id) == 0
    assert command("rebuild", backend) == 0
    said = capsys.readouterr().out
    assert len(re.findall(r"\d rows, \d vectors made", said)) == 3
    assert (answers(client), answers(other)) == before


def test_a_vault_that_was_never_made_is_named(backend: Embedded | Aws) -> None:
    for name in ("rebuild", "reconcile"):
        with pytest.raises(NotFound):
            command(name, backend, "0b0f9c3e-4f6e-4b1c-9f6f-2a55a1a50c11")


def test_vectors_that_cannot_be_made_are_not_all_right(
    client: Client, backend: Embedded | Aws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def down(self: Any, texts: Sequence[str]) -> None:
        raise Unavailable("The model does not answer.", code="embedding_unavailable", retry_after=5)

    model = type(backend.services.embedders["hashed-64"])
    monkeypatch.setattr(model, "embed_documents", down)
    client.ingest(*TEXTS)
    with pytest.raises(Unavailable):
        command("reconcile", backend)
    monkeypatch.undo()
    bootstrap.activate(backend)
    assert command("reconcile", backend) == 0
    assert "3 vectors were missing; repaired" in capsys.readouterr().out


def test_letters_are_tried_again(
    client: Client, backend: Embedded | Aws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = TEXTS[1]
    put = type(backend.index).put_words

    def picky(self: Any, vault: VaultRef, memories: Sequence[Memory]) -> None:
        if any(memory.text == bad for memory in memories):
            raise ValueError("somebody's words")
        put(self, vault, memories)

    with monkeypatch.context() as patched:
        patched.setattr(type(backend.index), "put_words", picky)
        client.ingest(*TEXTS)
        if isinstance(backend, Aws):
            assert command("redrive", backend) == 1
            assert "0 worked off, 1 failed again" in capsys.readouterr().out
    assert client.post(SEARCH, {"query": "owl"}).status == 200
    assert command("redrive", backend) == 0
    said = capsys.readouterr().out
    # The embedded back end keeps its changes in the outbox, and tries them again by itself.
    assert said.startswith("1 worked off, 0" if isinstance(backend, Aws) else "0 worked off, 0")
    found = client.post(SEARCH, {"query": "owl", "limit": 1}).json["memories"]
    assert found[0]["content"] == bad
    assert client.get(STATS).json["totalVectors"] + client.get(STATS).json["waiting_vectors"] >= 3


def test_letters_of_a_deleted_vault_are_worked_off(client: Client, backend: Embedded | Aws) -> None:
    ids = client.ingest(*TEXTS)
    (vault,) = backend.stored()
    client.delete("/v1/memory")
    if isinstance(backend, Aws):
        backend.services.dead_letters.send([DeadLetter(Task(Kind.INDEX, vault, ids[0]), "ValueError")])
    assert command("redrive", backend) == 0
    assert client.get(STATS).json["totalVectors"] == 0


def test_contents_that_no_vault_has_any_more_are_removed(
    client: Client, backend: Embedded | Aws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client.ingest(*TEXTS)
    with monkeypatch.context() as patched:
        patched.setattr(type(backend.index), "purge", lambda *_: None)
        client.delete("/v1/memory")
    command("reconcile", backend)
    said = capsys.readouterr().out
    if isinstance(backend, Aws):
        assert re.search(r"no vault has any more: [1-9]\d*; removed", said)
        command("reconcile", backend)
        assert "no vault has any more: 0\n" in capsys.readouterr().out


def test_where_all_is_well_there_is_little_to_do(
    client: Client, backend: Embedded | Aws, capsys: pytest.CaptureFixture[str]
) -> None:
    client.ingest(*TEXTS)
    before = answers(client)
    for name in ("create", "drop-old", "catch-up"):
        assert command(name, backend) == 0
    said = capsys.readouterr().out
    if isinstance(backend, Aws):
        assert re.search(rf"^ready: \S+-hashed-64-64-v{VERSION}-\d+$", said, re.MULTILINE)
        assert "dropped" not in said
        assert "3 changes brought in, 0 failed" in said
    else:
        assert said.count("there is nothing to") == 3
    assert answers(client) == before


@EMBEDDED_ONLY
def test_the_program_speaks_plainly(
    tmp_path: Path, backend: Embedded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(data=tmp_path / "other", embedder="hashed-64", index_memory_mb=64)
    with Embedded(settings) as other:
        bootstrap.activate(other)
        from infra.local.gateway import Gateway

        Client(Gateway(other.services), other.services).ingest(*TEXTS)
    monkeypatch.setenv("STRATA_DATA", str(settings.data))
    monkeypatch.setenv("STRATA_EMBEDDER", "hashed-64")
    assert main(["reconcile", "--all"]) == 0
    assert "3 rows, 0 were missing" in capsys.readouterr().out
    assert main(["create"]) == 0
    assert main(["drop-old", "--newer"]) == 0
    assert main(["rebuild", "--vault", "0b0f9c3e-4f6e-4b1c-9f6f-2a55a1a50c11"]) == 2
    assert "stopped: " in capsys.readouterr().err
    # Somebody else has it open.
    monkeypatch.setenv("STRATA_DATA", str(tmp_path / "data"))
    assert main(["reconcile"]) == 2
    assert "stopped: " in capsys.readouterr().err
    monkeypatch.setenv("STRATA_BACKEND", "aws")
    assert main(["reconcile"]) == 2
    assert "STRATA_TABLE is missing" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["reconcile", "--all", "--vault", "x"])
    assert "not allowed with" in capsys.readouterr().err
