"""The scheduler itself: it leaves out no order that matters, repeats what it is told, lets nothing outlive a crash."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest

from tests.simulation.scheduler import EveryOrder, Scheduler, SeededOrder, Step, Stuck

Outcome = tuple[tuple[tuple[int, ...], ...], tuple[tuple[int], ...]]
"""What each script read, and the cells in the end."""

READ_TWICE = ("BEGIN", "SELECT value FROM cell WHERE id = 1", "SELECT value FROM cell WHERE id = 2", "COMMIT")


def adding(*cells: int) -> tuple[str, ...]:
    return ("BEGIN IMMEDIATE", *(f"UPDATE cell SET value = value * 2 + {n} WHERE id = {n}" for n in cells), "COMMIT")


class Plain(EveryOrder):
    """All orders of all statements, swaps of independent ones included."""

    def choose(self, options: Sequence[Step]) -> Step | None:
        self._sleeping = []
        return super().choose(options)


@cache
def two_cells() -> bytes:
    """A database file with two cells, both 0."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE cell (id INTEGER PRIMARY KEY, value INTEGER)")
        connection.execute("INSERT INTO cell VALUES (1, 0), (2, 0)")
        image = bytearray(connection.serialize())
    # Bytes 18 and 19 of the header say that the file is in write-ahead mode.
    image[18:20] = b"\x02\x02"
    return bytes(image)


def fresh(folder: Path) -> Path:
    path = folder / "cells.sqlite3"
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(two_cells())
    return path


def outcomes(folder: Path, walk: EveryOrder, crashes: int, *scripts: tuple[str, ...]) -> tuple[set[Outcome], int]:
    """Everything that came of the scripts in some order, and in how many schedules."""
    found: set[Outcome] = set()
    schedules = 0
    while walk.more():
        scheduler, path = Scheduler(crashes, isinstance(walk, Plain)), fresh(folder)
        seen: list[list[int]] = [[] for _ in scripts]

        def body(script: tuple[str, ...], log: list[int], scheduler: Scheduler, path: Path) -> Callable[[], None]:
            def run() -> None:
                with closing(scheduler.connect(path)) as connection:
                    for sql in script:
                        log.extend(row[0] for row in connection.execute(sql))

            return run

        for script, log in zip(scripts, seen, strict=True):
            scheduler.add(body(script, log, scheduler, path))
        scheduler.run(walk)
        if not scheduler.given_up:
            schedules += 1
            final = sqlite3.connect(path)
            found.add((tuple(map(tuple, seen)), tuple(final.execute("SELECT value FROM cell ORDER BY id"))))
            final.close()
    return found, schedules


@pytest.mark.parametrize(
    ("crashes", "scripts"),
    [
        (0, (adding(1, 2), READ_TWICE)),
        (0, (adding(1, 2), adding(2, 1))),
        (0, (READ_TWICE[1:3], adding(1))),
        (1, (adding(1), READ_TWICE[1:3])),
        (1, (adding(1), adding(2))),
    ],
)
def test_what_is_left_out_changes_nothing(tmp_path: Path, crashes: int, scripts: tuple[tuple[str, ...], ...]) -> None:
    every, many = outcomes(tmp_path, Plain(), crashes, *scripts)
    chosen, few = outcomes(tmp_path, EveryOrder(), crashes, *scripts)
    assert chosen == every
    assert few < many


def test_a_snapshot_is_of_one_moment(tmp_path: Path) -> None:
    found, _ = outcomes(tmp_path, EveryOrder(), 0, adding(1, 2), READ_TWICE)
    assert {reads for (_, reads), _ in found} == {(0, 0), (1, 2)}


def test_statements_without_a_transaction_are_seen_one_by_one(tmp_path: Path) -> None:
    alone = tuple(f"UPDATE cell SET value = value * 2 + {n} WHERE id = {n}" for n in (1, 2))
    found, _ = outcomes(tmp_path, EveryOrder(), 0, alone, READ_TWICE)
    assert {reads for (_, reads), _ in found} == {(0, 0), (1, 0), (1, 2)}


def test_a_crash_anywhere_leaves_all_or_nothing(tmp_path: Path) -> None:
    found, _ = outcomes(tmp_path, EveryOrder(), 1, adding(1, 2))
    assert {final for _, final in found} == {((0,), (0,)), ((1,), (2,))}


def test_writers_wait_for_each_other_and_come_in_every_order(tmp_path: Path) -> None:
    scripts = [
        ("BEGIN IMMEDIATE", f"UPDATE cell SET value = value * 10 + {n} WHERE id = 1", "COMMIT") for n in (1, 2, 3)
    ]
    found, _ = outcomes(tmp_path, EveryOrder(), 0, *scripts)
    orders = {int("".join(map(str, order))) for order in permutations((1, 2, 3))}
    assert {final[0][0] for _, final in found} == orders


def test_a_seed_is_one_schedule(tmp_path: Path) -> None:
    def once(seed: int) -> list[str]:
        scheduler, path, told = Scheduler(), fresh(tmp_path), list[str]()

        def body(name: str) -> Callable[[], None]:
            def run() -> None:
                with closing(scheduler.connect(path)) as connection:
                    for _ in range(4):
                        connection.execute("SELECT value FROM cell")
                        told.append(name)

            return run

        for name in "abc":
            scheduler.add(body(name))
        scheduler.run(SeededOrder(seed))
        return told

    assert once(1) == once(1)
    assert len({tuple(once(seed)) for seed in range(8)}) > 4


def test_workers_that_wait_for_each_other_are_found(tmp_path: Path) -> None:
    scheduler, path = Scheduler(), fresh(tmp_path)

    def never_ends() -> None:
        with closing(scheduler.connect(path)) as one, closing(scheduler.connect(path)) as other:
            one.execute("BEGIN IMMEDIATE")
            other.execute("BEGIN IMMEDIATE")

    scheduler.add(never_ends)
    with pytest.raises((Stuck, sqlite3.OperationalError)):
        scheduler.run(EveryOrder())
