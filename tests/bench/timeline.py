"""Search by time: what page 1,000 of a large vault costs beside page 1, and both beside plain SQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from shared.domain.memory import Covers
from shared.usecases.date_search import date_search
from shared.usecases.services import Answer, Caller
from tests.bench.report import Options, Row, at_most, ms, paired, times
from tests.bench.vaults import APPEND, START_MS, STEP_MS, Bench, bench

TEXT = "The meeting about the harbour was moved to Tuesday. " * 3
ROWS_A_PAGE = 25
BUDGET = 1_000
COVERED = 20
ROUNDS = 40
SLOWDOWN = 1.3
EXPORTED = 1_000


def iso(ms_: int) -> str:
    return datetime.fromtimestamp(ms_ / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fill(made: Bench, count: int) -> Caller:
    """Rows a minute apart, a reflection for every `COVERED` of them."""
    caller = made.caller()
    for first in range(0, count, APPEND):
        rows = made.rows([TEXT] * min(APPEND, count - first), first)
        told = [
            replace(
                last,
                id=memory_id,
                tier=2,
                importance=5,
                covers=Covers(last.date_ms - (COVERED - 1) * STEP_MS, last.date_ms),
            )
            for last, memory_id in zip(
                rows[COVERED - 1 :: COVERED], made.ids.memory_ids(len(rows) // COVERED), strict=True
            )
        ]
        made.store.append(caller.vault, [*rows, *told], None, START_MS)
    return caller


def page(made: Bench, caller: Caller, end_ms: int) -> Answer:
    answer = date_search(
        made.services,
        caller,
        from_=iso(START_MS - STEP_MS),
        to=iso(end_ms),
        query=None,
        tiers=None,
        max_tokens=BUDGET,
        order="newest_first",
        importance=None,
        after_id=None,
    )
    assert answer["truncated"]
    return answer


def plain(made: Bench, caller: Caller, end_ms: int) -> object:
    """The same rows by one statement and nothing else."""
    with made.files.database(caller.vault).read() as connection:
        return connection.execute(
            "SELECT * FROM memory WHERE tier = 1 AND date < ? ORDER BY date DESC, id DESC LIMIT ?",
            (end_ms, ROWS_A_PAGE),
        ).fetchall()


def run(options: Options) -> list[Row]:
    count = 30_000 if options.quick else 100_000
    with bench() as made:
        caller = fill(made, count)
        newest = START_MS + count * STEP_MS
        # Near the end, far beyond page 1,000 of the large vault.
        far = START_MS + count // 20 * STEP_MS
        near_end = made.rows(["x"], count - 2_000)[0]
        first, last, bare = paired(
            ROUNDS,
            [
                partial(page, made, caller, newest),
                partial(page, made, caller, far),
                partial(plain, made, caller, far),
            ],
        )
        begins, ends = paired(
            ROUNDS,
            [
                partial(made.store.export, caller.vault, None, EXPORTED),
                partial(made.store.export, caller.vault, (near_end.date_ms, near_end.id), EXPORTED),
            ],
        )
    place = (count - count // 20) // ROWS_A_PAGE
    return [
        Row(
            f"date search, about page {place:,} of a vault of {count:,} rows",
            f"{ms(last[0])} (CPU {ms(last[1])})",
            f"{ms(first[0])} (CPU {ms(first[1])}), page 1",
            f"{times(last[0], first[0])} (CPU {times(last[1], first[1])})",
            *at_most(last[1] / first[1], SLOWDOWN),
        ),
        Row(
            "the same page",
            f"{ms(last[0])} (CPU {ms(last[1])})",
            f"{ms(bare[0])} (CPU {ms(bare[1])}), one SELECT of {ROWS_A_PAGE} rows",
            f"{times(last[0], bare[0])} (CPU {times(last[1], bare[1])})",
        ),
        Row(
            f"export of {EXPORTED:,} rows near the end, {count:,} rows",
            f"{ms(ends[0])} (CPU {ms(ends[1])})",
            f"{ms(begins[0])} (CPU {ms(begins[1])}), the first {EXPORTED:,}",
            f"{times(ends[0], begins[0])} (CPU {times(ends[1], begins[1])})",
            *at_most(ends[1] / begins[1], SLOWDOWN),
        ),
    ]


TITLE = "Date search"
NOTE = (
    f"Newest first, {BUDGET:,} tokens a page, a reflection for every {COVERED} rows; median of {ROUNDS} pages, taking"
    " turns. The far page begins where walking page by page would, its window ended by the page before it."
)
