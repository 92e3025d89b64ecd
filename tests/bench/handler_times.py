"""How much processor time handlers take of their own, with all of their clients and nothing of what is behind these."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from itertools import count
from time import process_time
from typing import Any

from tests.bench.deployed import Deployed, answering
from tests.bench.report import machine
from tests.bench.vaults import Prose
from tests.bench.wires import Others, TimedEmbedder, search_transport, table_client

ROUNDS, WARM_UP = 15, 3
HELD, PART = 1_000, 40
CHARACTERS, REFLECTION_CHARACTERS = 420, 600
MINUTE, HOUR, LARGE = 60_000, 3_600_000, 20_000
EVENT_BYTES = 26
"""What the log service counts beside the bytes of a line."""

Work = Callable[[], tuple[Any, float, int]]


def measured() -> dict[str, Any]:
    """Processor milliseconds and log bytes of each operation's answer and of the indexing after it.

    Of all rounds the quicker quarter's slowest: what else the machine does can only add.
    """
    others = Others()
    out = io.StringIO()

    def deployed() -> Deployed:
        return Deployed(
            lambda memory: table_client(memory, others),
            lambda store: search_transport(store, others),
            TimedEmbedder(others),
            "prod",
        )

    # Loggers keep the output that they find.
    with redirect_stdout(out), answering(deployed()) as on:
        operations = _operations(on, others, out)
    return {"machine": machine(), "operations": operations}


def _operations(on: Deployed, others: Others, out: io.StringIO) -> dict[str, Any]:
    prose = Prose()
    numbers = count()

    def messages(number: int) -> dict[str, Any]:
        rows = [{"role": "user", "content": prose.text(CHARACTERS)} for _ in range(number)]
        return {"messages": rows, "session_id": f"session {next(numbers)}"}

    def timed(work: Callable[[], Any]) -> tuple[Any, float, int]:
        # What the stand-ins hold is not the function's to look through.
        gc.freeze()
        spent, at = others.seconds, out.tell()
        start = process_time()
        answer = work()
        took = process_time() - start - (others.seconds - spent)
        lines = out.getvalue()[at:].splitlines()
        return answer, max(0.0, took * 1000), sum(len(line.encode()) + EVENT_BYTES for line in lines)

    def post(path: str, body: object, after: int = MINUTE) -> tuple[Any, float, int]:
        on.clock.now += after
        return timed(lambda: on.call("POST", f"/v1/memory/{path}", body)[0])

    for _ in range(0, HELD, PART):
        post("ingest", messages(PART))
        on.follow()
    question = {"query": prose.question()}
    turns = {"messages": [{"role": "user", "content": prose.question()}]}
    taken: dict[str, list[tuple[float, int, float, int]]] = {}
    batches: list[str] = []

    def checkout() -> tuple[Any, float, int]:
        found = post("consolidate/checkout", {"tier": 1, "max_tokens": 10_500})
        batches.append(found[0]["batch_id"])
        return found

    def commit() -> tuple[Any, float, int]:
        entries = [{"text": prose.text(REFLECTION_CHARACTERS), "importance": 5} for _ in range(10)]
        return post("consolidate/commit", {"batch_id": batches.pop(), "entries": entries})

    reads: dict[str, Work] = {
        "search": lambda: post("search", question, HOUR),
        "prepare": lambda: post("prepare", turns, HOUR),
    }
    writes: dict[str, Work] = {
        "ingest_1": lambda: post("ingest", messages(1)),
        "ingest_25": lambda: post("ingest", messages(25)),
        "checkout_100": checkout,
        "commit_100_to_10": commit,
    }

    def play(works: Mapping[str, Work]) -> None:
        for number in range(ROUNDS + WARM_UP):
            for _ in range(4 if works is writes else 0):
                post("ingest", messages(25))
                on.follow()
            for name, work in works.items():
                _, took, log = work()
                _, then, later = timed(on.follow)
                if number >= WARM_UP:
                    taken.setdefault(name, []).append((took, log, then, later))

    # Reading first: the vault has its size until it is written.
    play(reads)
    on.search.population = LARGE
    taken["search_large_vault"] = [(*reads["search"]()[1:], 0.0, 0) for _ in range(ROUNDS)]
    on.search.population = None
    play(writes)
    return {
        name: dict(
            zip(
                ("cpu_ms", "log_bytes", "indexing_cpu_ms", "indexing_log_bytes"),
                map(_own, zip(*each, strict=True)),
                strict=True,
            )
        )
        for name, each in taken.items()
    }


def _own(values: tuple[float, ...]) -> float:
    return round(sorted(values)[len(values) // 4], 1)
