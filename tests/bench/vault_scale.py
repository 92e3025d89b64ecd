"""Thousands of vaults in one folder: the start, searches in closed vaults and in open ones, and what stays open."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

from shared.adapters.sqlite.database import MAX_IDLE
from shared.adapters.sqlite.directory import FIRST_EPOCH, SqliteDirectory
from shared.adapters.sqlite.files import MAX_OPEN, VaultFiles
from shared.adapters.sqlite.index import SqliteIndex
from shared.bootstrap.embedded import MEBIBYTE
from shared.domain.keys import SCOPES
from shared.domain.memory import VaultRef
from shared.ports.directory import KeyRecord
from shared.settings import Settings
from shared.usecases.search import search
from shared.usecases.services import Caller, Services
from tests.bench.memory import resident_mib
from tests.bench.report import Options, Row, at_most, ms, times
from tests.bench.search import full_text
from tests.bench.vaults import START_MS, Bench, InstantEmbedder, Prose

VAULTS, ROWS, CHARACTERS = 2_000, 500, 420
TEMPLATES = 8
COLD, WARM, STARTS = 300, 600, 5
TOP = 10
DESCRIPTORS_A_CONNECTION = 3


def templates(folder: Path, prose: Prose) -> tuple[list[Path], list[str]]:
    """Files of whole vaults, and the texts of the last one."""
    folder.mkdir()
    made = Bench(folder)
    paths: list[Path] = []
    texts: list[str] = []
    for _ in range(TEMPLATES):
        caller = made.caller()
        texts = [prose.text(CHARACTERS) for _ in range(ROWS)]
        made.fill_indexed(caller, texts)
        paths.append(made.files.path(caller.vault))
    made.close()
    return paths, texts


def populate(folder: Path, paths: list[Path], count: int) -> list[VaultRef]:
    """Vaults that are copies of the templates, with their keys; none of them waits for anything."""
    (folder / "vaults").mkdir(parents=True)
    (folder / "dirty").mkdir()
    vaults = [VaultRef(f"vault-{number}", FIRST_EPOCH) for number in range(count)]
    directory = SqliteDirectory(folder)
    with directory.database.write() as connection:
        connection.executemany(
            "INSERT INTO vault (id, epoch, written, model, made) VALUES (?,?,?,?,?)",
            [(vault.vault_id, vault.epoch, START_MS, InstantEmbedder.name, vault.epoch) for vault in vaults],
        )
    directory.database.close()
    for number, vault in enumerate(vaults):
        name = f"{vault.vault_id}.{vault.epoch}.sqlite3"
        shutil.copyfile(paths[number % len(paths)], folder / "vaults" / name)
    return vaults


def start_seconds(folder: Path) -> float:
    """CPU of what a start does with the folder, up to the list of what waits."""
    begun = process_time()
    directory = SqliteDirectory(folder)
    files = VaultFiles(folder, directory)
    waiting = files.dirty()
    spent = process_time() - begun
    assert not waiting
    files.close()
    directory.database.close()
    return spent


def asked(services: Services, made: Bench, vault: VaultRef, question: str) -> object:
    key = KeyRecord("key", "", vault.vault_id, "", SCOPES, START_MS)
    caller = Caller(key, made.directory.vault(vault.vault_id), SCOPES, "mk_…")
    memories = search(services, caller, question, TOP, None, None)["memories"]
    assert isinstance(memories, list)
    assert len(memories) == TOP
    return memories


def bare(path: Path) -> object:
    """Open a vault's file and read what its index is made of, with nothing of ours."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT p.*, m.tier, m.role, m.session, m.date, m.importance, m.covers_from, m.covers_to"
            " FROM passage p JOIN memory m ON m.id = p.id"
        ).fetchall()


def ranked(plain: sqlite3.Connection, question: str) -> object:
    words = " OR ".join(f'"{word}"' for word in question.rstrip("?").split())
    return plain.execute(
        "SELECT rowid, bm25(words) FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (words, TOP)
    ).fetchall()


Spent = tuple[float, float, float]
"""Median wall, median CPU, 95th percentile of wall, in seconds."""


def measured(works: Iterator[Callable[[], object]]) -> Spent:
    wall, cpu = [], []
    for work in works:
        first, second = perf_counter(), process_time()
        work()
        wall.append(perf_counter() - first)
        cpu.append(process_time() - second)
    return statistics.median(wall), statistics.median(cpu), statistics.quantiles(wall, n=20)[-1]


def shown(spent: Spent) -> str:
    return f"{ms(spent[0])} (p95 {ms(spent[2])}, CPU {ms(spent[1])})"


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def run(options: Options) -> list[Row]:
    count = VAULTS // 10 if options.quick else VAULTS
    limit = Settings().index_memory_mb
    prose, drawn = Prose(), random.Random(5)
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as name:
        folder = Path(name)
        paths, texts = templates(folder / "templates", prose)
        vaults = populate(folder / "many", paths, count)
        populate(folder / "one", paths, 1)
        few, many = (
            statistics.median(start_seconds(folder / which) for _ in range(STARTS)) for which in ("one", "many")
        )
        made = Bench(folder / "many")
        index = SqliteIndex(made.files, lambda vault: InstantEmbedder.dimension, limit * MEBIBYTE)
        services = replace(made.services, index=index)
        plain = full_text(texts)
        before_mib, before_open = resident_mib(os.getpid()), descriptors()
        chosen = drawn.sample(vaults, min(COLD, count // 2) * 2)
        ours, theirs = chosen[::2], chosen[1::2]
        cold = measured(partial(asked, services, made, vault, prose.question()) for vault in ours)
        opened = measured(partial(bare, made.files.path(vault)) for vault in theirs)
        warm = measured(partial(asked, services, made, drawn.choice(ours), prose.question()) for _ in range(WARM))
        words = measured(partial(ranked, plain, prose.question()) for _ in range(WARM))
        one = index.bytes_used / index.resident
        for vault in vaults:
            asked(services, made, vault, prose.question())
        after_mib, after_open = resident_mib(os.getpid()), descriptors()
        held, resident = index.bytes_used / MEBIBYTE, index.resident
        plain.close()
        made.close()
    most = MAX_OPEN * MAX_IDLE * DESCRIPTORS_A_CONNECTION
    return [
        Row(
            f"start, a folder of {count:,} vaults, CPU",
            ms(many),
            f"{ms(few)}, of one vault",
            times(many, few),
        ),
        Row(
            f"first search in a vault of {ROWS} rows, {count:,} vaults",
            shown(cold),
            f"{shown(opened)}, sqlite3 alone opens such a file and reads the same",
            times(cold[0], opened[0]),
        ),
        Row(
            "a later search in one of them",
            shown(warm),
            f"{shown(words)}, FTS5 bm25() alone, in memory",
            times(warm[0], words[0]),
        ),
        Row(
            f"memory after a search in all {count:,}",
            f"{held:,.0f} MiB in {resident:,} indexes, process grown by {after_mib - before_mib:,.0f} MiB",
            f"{one / MEBIBYTE:.2f} MiB an index",
            "",
            f"≤ {limit:,} MiB of indexes",
            held <= limit,
        ),
        Row(
            "descriptors opened",
            f"{after_open - before_open}",
            f"{MAX_OPEN} vaults, up to {MAX_IDLE} connections of {DESCRIPTORS_A_CONNECTION} files each",
            "",
            *at_most(after_open - before_open, most),
        ),
    ]


TITLE = "Many vaults"
NOTE = (
    f"Vaults of {ROWS} rows of {CHARACTERS} characters, copies of {TEMPLATES} different ones, in random order; the"
    " whole use case with the query's vector given. Files were written moments before, so that they come from the"
    " system's cache and not from the disk. A start is what the data folder costs until the list of waiting vaults is"
    " there; no vault's file is opened for it."
)
