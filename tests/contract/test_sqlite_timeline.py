"""What a page by time costs the embedded store: the same wherever in the vault it lies. Counted, not timed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec

import pytest

from shared.domain.memory import TIERS, Covers, Memory, VaultRef
from shared.ports.store import TimelineQuery
from tests.contract.rows import NOW, Maker
from tests.contract.sqlite_rig import SqliteRig, connect

P = ParamSpec("P")
ROWS, STEP_MS = 100_000, 1_000
PAGE = 100
COVERED = 20
SPREAD = 1.15
"""Pages differ by how they lie to the leaves of an index."""


@dataclass
class Work:
    """Instructions of SQLite's machine and statements so far."""

    instructions: int = 0
    statements: int = 0

    def connect(self, path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.set_progress_handler(self._instruction, 1)
        connection.set_trace_callback(self._statement)
        return connection

    def _instruction(self) -> int:
        self.instructions += 1
        return 0

    def _statement(self, text: str) -> None:
        self.statements += 1

    def of(self, call: Callable[P, object], *args: P.args, **named: P.kwargs) -> tuple[int, int]:
        before = self.instructions, self.statements
        call(*args, **named)
        return self.instructions - before[0], self.statements - before[1]


@pytest.fixture(scope="module")
def work() -> Work:
    return Work()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, work: Work) -> Iterator[tuple[SqliteRig, VaultRef, list[Memory]]]:
    """A raw row a second; every 20 of them have a reflection, and every second reflection one about the next 20 too."""
    rig, make = SqliteRig(tmp_path_factory.mktemp("large"), work.connect), Maker()
    vault = rig.new_vault()
    rows = [make.raw("row", number * STEP_MS) for number in range(ROWS)]
    for start in range(0, ROWS, COVERED):
        end = start + COVERED * (1 + start // COVERED % 2)
        covers = Covers(start * STEP_MS, (end - 1) * STEP_MS)
        rows.append(replace(make.raw("told", covers.to_ms), tier=2, importance=5, covers=covers))
    for start in range(0, len(rows), 10_000):
        rig.store.append(vault, rows[start : start + 10_000], None, NOW)
    yield rig, vault, rows[:ROWS]
    rig.close()


def flat(costs: list[tuple[int, int]]) -> bool:
    instructions, statements = zip(*costs, strict=True)
    return len(set(statements)) == 1 and max(instructions) <= SPREAD * min(instructions)


@pytest.mark.slow
@pytest.mark.parametrize("newest_first", [True, False])
def test_page_one_thousand_costs_what_page_one_costs(
    large: tuple[SqliteRig, VaultRef, list[Memory]], work: Work, newest_first: bool
) -> None:
    rig, vault, rows = large
    end = ROWS * STEP_MS
    moved, resumed, spanning, exported = [], [], [], []
    for page in (1, 250, 500, 999):
        place = ROWS - page * PAGE if newest_first else page * PAGE
        at = rows[place]
        window = (0, at.date_ms) if newest_first else (at.date_ms, end)
        query = TimelineQuery(*window, frozenset(TIERS), newest_first=newest_first, limit=PAGE)
        whole = replace(query, from_ms=0, to_ms=end, after=(at.date_ms, at.id))
        assert len(rig.store.timeline(vault, whole)) == PAGE
        moved.append(work.of(rig.store.timeline, vault, query))
        resumed.append(work.of(rig.store.timeline, vault, whole))
        # At the middle of a reflection: always the same two go on there.
        around = replace(query, to_ms=(place - place % (2 * COVERED) + COVERED + 10) * STEP_MS)
        assert 1 <= len(rig.store.spanning(vault, around)) <= 2
        spanning.append(work.of(rig.store.spanning, vault, around))
        exported.append(work.of(rig.store.export, vault, (at.date_ms, at.id), PAGE))
    assert flat(moved), moved
    assert flat(resumed), resumed
    assert flat(spanning), spanning
    assert flat(exported), exported
    assert max(cost for cost, _ in moved + resumed + exported) < 60 * PAGE


@pytest.mark.slow
@pytest.mark.parametrize("newest_first", [True, False])
def test_going_on_inside_a_large_instant_costs_the_same_everywhere(
    tmp_path: Path, make: Maker, newest_first: bool
) -> None:
    work = Work()
    rig = SqliteRig(tmp_path, work.connect)
    vault = rig.new_vault()
    rows = [make.raw("row", 5) for _ in range(10_000)]
    rig.store.append(vault, rows, None, NOW)
    costs = []
    for place in (200, 5_000, 9_800):
        query = TimelineQuery(0, 9, frozenset(TIERS), newest_first=newest_first, limit=PAGE, after=(5, rows[place].id))
        found = rig.store.timeline(vault, query)
        expected = rows[place - PAGE : place][::-1] if newest_first else rows[place + 1 : place + 1 + PAGE]
        assert [row.id for row in found] == [row.id for row in expected]
        costs.append(work.of(rig.store.timeline, vault, query))
    assert flat(costs), costs
    rig.close()
