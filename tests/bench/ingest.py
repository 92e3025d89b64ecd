"""Ingest without embedding and HTTP, against the bare statements it comes down to."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from time import perf_counter

from shared.usecases.indexing import catch_up
from shared.usecases.ingest import NewMessage, ingest
from shared.usecases.services import Caller
from tests.bench.report import Options, Row
from tests.bench.vaults import START_MS, Bench, Prose, Statement, bench

CHARACTERS = 300
SHARE = 1 / 3
WRITES = ("INSERT", "UPDATE", "DELETE", "BEGIN IMMEDIATE", "COMMIT")


def requests_of(prose: Prose, count: int, messages: int) -> list[list[NewMessage]]:
    return [
        [NewMessage("user", prose.text(CHARACTERS), START_MS + number) for _ in range(messages)]
        for number in range(count)
    ]


def store(made: Bench, caller: Caller, messages: list[NewMessage]) -> None:
    ingest(made.services, caller, messages, None)
    catch_up(made.services, caller.vault)


def record(made: Bench, caller: Caller, messages: list[NewMessage]) -> list[Statement]:
    """Every write that the request sends to the vault's file, with its values, in its transactions."""
    everything: list[Statement] = []
    for connection in made.connections:
        connection.recorded = everything
    store(made, caller, messages)
    for connection in made.connections:
        connection.recorded = None
    kept: list[Statement] = []
    writing = False
    for sql, rows in everything:
        writing = writing or sql.startswith("BEGIN IMMEDIATE")
        if sql.startswith("PRAGMA synchronous") or (writing and sql.startswith(WRITES)):
            kept.append((sql, rows))
        if sql.startswith("COMMIT"):
            writing = False
    return kept


def bare(connection: sqlite3.Connection, statements: list[Statement]) -> None:
    for sql, rows in statements:
        if len(rows) == 1:
            connection.execute(sql, rows[0])
        else:
            connection.executemany(sql, rows)


def full_text(connection: sqlite3.Connection, messages: list[NewMessage]) -> None:
    """The same texts into one table and SQLite's own stemmed word index."""
    connection.execute("BEGIN IMMEDIATE")
    for message in messages:
        added = connection.execute(
            "INSERT INTO memory (text, role, date) VALUES (?,?,?)", (message.text, message.role, message.date_ms)
        )
        connection.execute("INSERT INTO words (rowid, text) VALUES (?,?)", (added.lastrowid, message.text))
    connection.execute("COMMIT")


def opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def measure(count: int, messages: int) -> list[Row]:
    prose = Prose()
    spent: tuple[list[float], ...] = ([], [], [])
    with bench() as made, tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
        caller, recorded = made.caller(), made.caller()
        empty = Path(folder) / "empty.sqlite3"
        with made.files.database(caller.vault).read() as source, closing(sqlite3.connect(empty)) as target:
            source.backup(target)
        made.store.debt(recorded.vault)
        with closing(opened(empty)) as copy, closing(opened(Path(folder) / "full-text.sqlite3")) as plain:
            plain.execute("CREATE TABLE memory (seq INTEGER PRIMARY KEY, text TEXT, role TEXT, date INTEGER)")
            plain.execute("CREATE INDEX memory_time ON memory (date)")
            plain.execute("CREATE VIRTUAL TABLE words USING fts5(text, content='memory', tokenize='porter')")
            for request in requests_of(prose, count, messages):
                statements = record(made, recorded, request)
                moments = [perf_counter()]
                store(made, caller, request)
                moments.append(perf_counter())
                bare(copy, statements)
                moments.append(perf_counter())
                full_text(plain, request)
                moments.append(perf_counter())
                for seen, (start, end) in zip(spent, pairwise(moments), strict=True):
                    seen.append(end - start)
    ours, bare_rate, plain_rate = (messages / statistics.median(seen) for seen in spent)
    to_bare, to_plain = (
        statistics.median(other / our for our, other in zip(spent[0], seen, strict=True)) for seen in spent[1:]
    )
    what = f"{messages} message{'' if messages == 1 else 's'} of {CHARACTERS} characters a request"
    return [
        Row(
            f"ingest, {what}",
            f"{ours:,.0f} messages/s",
            f"{bare_rate:,.0f}/s, bare statements",
            f"{to_bare:.2f}",
            "≥ 0.33",
            to_bare >= SHARE,
        ),
        Row(
            f"ingest, {what}",
            f"{ours:,.0f} messages/s",
            f"{plain_rate:,.0f}/s, one table with FTS5",
            f"{to_plain:.2f}",
        ),
    ]


def run(options: Options) -> list[Row]:
    return measure(200 if options.quick else 1_000, 1) + measure(5 if options.quick else 30, 500)


TITLE = "Ingest"
NOTE = (
    "The use case and the indexing of words, synced to disk, no model and no HTTP. The baseline runs the very"
    " statements that ingest sent to the vault's file (rows, outbox, words, counters), with ready values, in the same"
    " transactions; both take turns, request by request, and the ratio is the median of theirs. The second baseline is"
    " one plain table with SQLite's own stemmed full-text index."
)
