"""Search on warm vaults, without the query's embedding, against SQLite's own full-text ranking."""

from __future__ import annotations

import re
import sqlite3
import statistics
from time import process_time

from shared.usecases.search import search
from tests.bench.report import Options, Row, ms, times
from tests.bench.vaults import Bench, Prose, bench

ONE_PASSAGE = 420
KILOBYTE = 1_024
QUESTIONS = 40
TOP = 10


def full_text(texts: list[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='porter')")
    connection.executemany("INSERT INTO words (rowid, text) VALUES (?,?)", enumerate(texts, start=1))
    connection.commit()
    return connection


def measure(made: Bench, prose: Prose, count: int, characters: int, target: float | None) -> Row:
    texts = [prose.text(characters) for _ in range(count)]
    caller = made.caller()
    made.fill_indexed(caller, texts)
    plain = full_text(texts)
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(QUESTIONS + 3):
        question = prose.question()
        start = process_time()
        answer = search(made.services, caller, question, TOP, None, None)
        middle = process_time()
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        plain.execute(
            "SELECT rowid, bm25(words) FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", (words, TOP)
        ).fetchall()
        end = process_time()
        memories = answer["memories"]
        assert isinstance(memories, list)
        assert len(memories) == TOP
        if number >= 3:
            ours.append(middle - start)
            theirs.append(end - middle)
    plain.close()
    our_p50, their_p50 = statistics.median(ours), statistics.median(theirs)
    return Row(
        f"search among {count:,} rows of {characters:,} characters, CPU p50",
        f"{ms(our_p50)} (p95 {ms(statistics.quantiles(ours, n=20)[-1])})",
        f"{ms(their_p50)}, FTS5 bm25() alone",
        times(our_p50, their_p50),
        "" if target is None else f"≤ {target * 1000:.0f} ms",
        None if target is None else our_p50 <= target,
    )


def run(options: Options) -> list[Row]:
    large = 20_000 if options.quick else 100_000
    rows = []
    for count, characters, target in (
        (1_000, ONE_PASSAGE, 0.003),
        (large, ONE_PASSAGE, None if options.quick else 0.060),
        (large, KILOBYTE, None),
    ):
        with bench() as made:
            rows.append(measure(made, Prose(), count, characters, target))
    return rows


TITLE = "Search"
NOTE = (
    f"The whole use case (reading changes, ranking, fetching {TOP} rows) with the query's vector given, median"
    f" CPU time of {QUESTIONS} questions of about ten words, most of them function words; vocabulary of 30,000 words"
    " by Zipf's law, random vectors. The baseline asks an FTS5 table (porter) for the same words by bm25() and fetches"
    " nothing else."
)
