"""The check after a run: quiet about a vault that is whole, and loud about each kind of damage."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from infra.local.gateway import Gateway
from shared import bootstrap
from shared.settings import Settings
from tests.load import script
from tests.load.client import Answer, Client
from tests.load.driver import Driver
from tests.load.known import COMMITTED, LEASED, Known
from tests.load.promises import check

Tamper = Callable[[str, bytes], bytes]


class Direct(Client):
    """Reaches the handlers without a socket. `tamper` changes answers on their way, by path."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__("http://127.0.0.1", 1, time.monotonic() + 60)
        self._gateway = gateway
        self.tamper: Tamper = lambda path, body: body

    def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        plain, _, query = path.partition("?")
        reply = self._gateway.handle(method, plain, query, list(headers.items()), body or b"")
        code = json.loads(reply.body)["code"] if reply.status >= 400 else ""
        named = {name.lower(): value for name, value in reply.headers}
        return Answer(reply.status, code, self.tamper(plain, reply.body), named)


@pytest.fixture
def direct(tmp_path: Path) -> Iterator[Direct]:
    with bootstrap.Embedded(Settings(data=tmp_path, embedder="hashed-64")) as backend:
        bootstrap.activate(backend)
        client = Direct(Gateway(backend.services))
        yield client
        client.close()
    bootstrap.activate(None)


WRITING = {script.INGEST: 4, script.CONSOLIDATE: 3, script.DELETE: 1, script.UPLOAD: 1, script.INSPECT: 1}


@pytest.fixture
def vault(direct: Direct) -> Known:
    """A vault after some steps of the script, with an open lease."""
    known = Known("mk_checked")
    driver = Driver(direct, [known])
    for step in islice(script.steps(1, 1, 1, WRITING), 30):
        driver.take(step)
    direct.call("check", "POST", "/v1/memory/ingest", known.key, {"messages": [{"role": "user", "content": "last"}]})
    known.unsure.add("last")
    wanted = {"tier": 1, "max_tokens": 1000}
    leased = direct.call("check", "POST", "/v1/memory/consolidate/checkout", known.key, wanted).json
    known.leased(leased["batch_id"], 1, leased["source_ids"])
    assert len(committed(known)) > 1
    assert known.deleted
    assert known.lines
    return known


def said(direct: Direct, vault: Known) -> str:
    return "\n".join(check(direct, [vault]).broken)


def committed(vault: Known) -> list[str]:
    return [name for name, batch in vault.batches.items() if batch.state == COMMITTED]


def test_a_whole_vault_breaks_no_promise(direct: Direct, vault: Known) -> None:
    verdict = check(direct, [vault])
    assert verdict.broken == ()
    assert verdict.rows > 10
    assert verdict.batches == len(vault.batches)
    # It leaves nothing behind: a second one finds the same.
    assert check(direct, [vault]) == verdict


def test_what_was_never_stored_is_missed(direct: Direct, vault: Known) -> None:
    vault.rows["0198c0de-0000-7000-8000-000000000000"] = "never"
    assert "was lost" in said(direct, vault)


def test_an_uploaded_line_is_missed(direct: Direct, vault: Known) -> None:
    vault.lines.add("never")
    assert "1 uploaded lines were lost" in said(direct, vault)


def test_a_row_of_somebody_else_is_noticed(direct: Direct, vault: Known) -> None:
    direct.call("check", "POST", "/v1/memory/ingest", vault.key, {"messages": [{"role": "user", "content": "foreign"}]})
    assert "1 rows were never sent to this vault" in said(direct, vault)


def test_a_message_stored_twice_is_noticed(direct: Direct, vault: Known) -> None:
    word = next(word for memory_id, word in vault.rows.items() if memory_id not in vault.deleted)
    direct.call("check", "POST", "/v1/memory/ingest", vault.key, {"messages": [{"role": "user", "content": word}]})
    assert "stored twice" in said(direct, vault)


def test_a_deleted_row_that_is_there_is_noticed(direct: Direct, vault: Known) -> None:
    (memory_id,) = list(vault.rows.keys() - vault.deleted.keys())[:1]
    vault.was_deleted([memory_id], 0.0)
    assert f"{memory_id} was deleted and is there" in said(direct, vault)


def test_a_source_of_two_batches_is_noticed(direct: Direct, vault: Known) -> None:
    first, second = committed(vault)[:2]
    vault.batches[first].sources += vault.batches[second].sources[:1]
    assert "is a source of two committed batches" in said(direct, vault)


def test_a_source_that_is_not_marked_is_noticed(direct: Direct, vault: Known) -> None:
    leased = next(batch for batch in vault.batches.values() if batch.state == LEASED)
    leased.state = COMMITTED
    assert "is marked None" in said(direct, vault)


def test_leases_that_overlap_are_noticed(direct: Direct, vault: Known) -> None:
    name, leased = next(each for each in vault.batches.items() if each[1].state == LEASED)
    vault.leased(f"{name}0", leased.tier, leased.sources)
    assert f"two open leases of tier {leased.tier} overlap" in said(direct, vault)


def test_a_lease_that_nobody_was_given_is_noticed(direct: Direct, vault: Known) -> None:
    for batch in vault.batches.values():
        batch.state = COMMITTED if batch.state == COMMITTED else "released"
    assert "are in leases that nobody was given" in said(direct, vault)
    vault.lost_leases = 1
    assert "are in leases that nobody was given" not in said(direct, vault)


def test_a_reflection_that_nobody_wrote_is_noticed(direct: Direct, vault: Known) -> None:
    del vault.batches[committed(vault)[0]]
    assert "nobody committed the reflection" in said(direct, vault)


@pytest.mark.parametrize(
    ("field", "broken"),
    [
        ("total_tokens", "tokens are counted"),
        ("tiers", "the counts are not a recount"),
        ("reflection", "the debt is told as"),
        ("pending", "on their way still"),
    ],
)
def test_counters_that_are_off_by_one_are_noticed(direct: Direct, vault: Known, field: str, broken: str) -> None:
    def tamper(path: str, body: bytes) -> bytes:
        if not path.endswith("/stats"):
            return body
        told: dict[str, Any] = json.loads(body)
        if field == "tiers":
            told["tiers"]["1"] += 1
        elif field == "reflection":
            told["reflection"]["unconsolidated"]["tier2"]["importance"] += 1
        else:
            told[field] += 1
        return json.dumps(told).encode()

    direct.tamper = tamper
    assert broken in said(direct, vault)


def test_a_line_that_an_export_leaves_out_is_noticed(direct: Direct, vault: Known) -> None:
    direct.tamper = lambda path, body: body.partition(b"\n")[2] if path.endswith("/export") else body
    found = said(direct, vault)
    assert "the counts are not a recount" in found
