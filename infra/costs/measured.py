"""What was counted and timed: ``measured.json``, which ``python -m tests.bench.units`` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("measured.json")


@dataclass(frozen=True, slots=True)
class Part:
    """What a request asks until its answer, or what the indexer asks after it. Bytes and tokens are per request."""

    calls: int
    table_requests: int
    read_units: float
    write_units: int
    searches: int
    search_requests: int
    embedded_texts: int
    embedded_tokens: int
    answer_bytes: int
    cpu_ms: float
    log_bytes: float


@dataclass(frozen=True, slots=True)
class Operation:
    """`function` is the folder of the function that answers."""

    name: str
    function: str
    answer: Part
    indexing: Part


FUNCTION_OF = {
    "search": "search",
    "search_large_vault": "search",
    "prepare": "prepare",
    "ingest_1": "ingest",
    "ingest_25": "ingest",
    "checkout_100": "checkout",
    "commit_100_to_10": "commit",
}
"""The operations that are timed as well as counted, and who answers them."""


@dataclass(frozen=True, slots=True)
class Measured:
    operations: Mapping[str, Operation]
    stored_bytes: Mapping[str, int]
    sources: int
    entries: int
    characters: int
    machine: str
    counts: Mapping[str, Mapping[str, Mapping[str, float]]]
    """Every counted operation as it stands in the file."""


def read(path: Path = FILE) -> Measured:
    found = json.loads(path.read_text("utf-8"))
    times = found["times"]["operations"]
    counts = found["operations"]
    return Measured(
        operations={
            name: Operation(
                name,
                function,
                _part(counts[name]["answer"], times[name], ""),
                _part(counts[name]["indexing"], times[name], "indexing_"),
            )
            for name, function in FUNCTION_OF.items()
        },
        stored_bytes=found["stored_bytes"],
        sources=found["consolidation"]["sources"],
        entries=found["consolidation"]["entries"],
        characters=found["memory_characters"],
        machine=found["times"]["machine"],
        counts=counts,
    )


def _part(counted: Mapping[str, Any], timed: Mapping[str, Any], prefix: str) -> Part:
    return Part(
        calls=counted["calls"],
        table_requests=counted["table_requests"],
        read_units=counted["read_units"],
        write_units=counted["write_units"],
        searches=counted["searches"],
        search_requests=counted["searches"] + counted["search_reads"] + counted["search_writes"],
        embedded_texts=counted["embedded_texts"],
        embedded_tokens=counted["embedded_tokens"],
        answer_bytes=counted["answer_bytes"],
        cpu_ms=timed[f"{prefix}cpu_ms"],
        log_bytes=timed[f"{prefix}log_bytes"],
    )
