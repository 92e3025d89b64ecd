"""Writes that do not fit one transaction: their rows are staged, made certain in one step, then published in chunks.

The commit point of such a write puts a job beside its staged parts. From then on the rows are certain to appear,
whoever crashes: anybody may publish the next chunk, and the job's `through` lets exactly one of them do it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from shared.adapters.dynamodb.counters import Counters, stale
from shared.adapters.dynamodb.layout import (
    PART_BYTES,
    STAGED_MS,
    TTL,
    id_of,
    job_key,
    keyed,
    memory_item,
    pack_rows,
    part_key,
    partition,
    seconds,
    unpack_rows,
)
from shared.adapters.dynamodb.table import MAX_OPERATIONS, ConditionFailed, Table
from shared.adapters.dynamodb.values import Item, Wire, delete, put, update
from shared.domain.errors import Unavailable
from shared.domain.memory import Memory, VaultRef
from shared.domain.text import BYTES_PER_TOKEN

MAX_BYTES = 3_600_000
"""Of one transaction: 4 MB with room for keys and counters."""
ROW_BYTES = 700
"""Of a row besides its text, at most: its keys, its session, its batches."""
ROOM = MAX_OPERATIONS - 2
"""Rows of one transaction besides the counters and a claim, a job or a header."""


def row_bytes(row: Memory) -> int:
    # As the request's JSON writes it: longer than what is stored, and bounded as well.
    return len(json.dumps(row.text)) + ROW_BYTES


def fits(rows: Sequence[Memory]) -> bool:
    """Whether one transaction holds them all."""
    return len(rows) <= ROOM and sum(map(row_bytes, rows)) <= MAX_BYTES


def one_chunk(rows: Sequence[Memory], room: int = ROOM) -> int:
    """How many of the rows, in order, fit the next transaction."""
    size = 0
    for number, row in enumerate(rows[:room]):
        size += row_bytes(row)
        if number and size > MAX_BYTES:
            return number
    return min(len(rows), room)


def weight(item: Item | None) -> int:
    """Bytes of a stored row, at most, by its tokens `k`: its text need not be read for it."""
    return 0 if item is None else item["k"] * BYTES_PER_TOKEN + ROW_BYTES


def fitting(weights: Sequence[int], size: int = 0) -> int:
    """How many stored items, in order, fit a transaction that holds `size` bytes already: a change counts all of an
    item. At least one.
    """
    for number, each in enumerate(weights):
        size += each
        if number and size > MAX_BYTES:
            return number
    return len(weights)


def stage(vault: VaultRef, attempt: str, parts: Sequence[bytes]) -> list[Wire]:
    """The writes of staged parts."""
    return [put(keyed(part_key(vault, attempt, number), {"rows": part})) for number, part in enumerate(parts)]


def unstage(vault: VaultRef, attempt: str, numbers: Iterable[int]) -> list[Wire]:
    return [delete(part_key(vault, attempt, number)) for number in numbers]


def staged_rows(table: Table, vault: VaultRef, attempt: str, parts: int) -> list[Memory] | None:
    """The staged rows in order; None when they were published and removed meanwhile."""
    keys = [part_key(vault, attempt, number) for number in range(parts)]
    items = table.get_all(keys)
    return unpack_rows(items[sort]["rows"] for _, sort in keys) if len(items) == parts else None


def lost(what: str) -> Unavailable:
    """The table contradicts itself: something that only a finished step removes is gone before it."""
    return Unavailable(
        f"The table has lost {what}.",
        code="storage_unavailable",
        hint="Restore the table to a moment before it was changed by other means.",
        retry_after=60,
    )


class Staging:
    """Large appends."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def commit(self, vault: VaultRef, attempt: str, rows: Sequence[Memory], claim: Sequence[Wire], now_ms: int) -> None:
        """Make all rows certain. Raises `ConditionFailed`: place 0 are the counters, 1 a claim."""
        parts = pack_rows(rows)
        counters = Counters()
        counters.pending(len(rows))
        job = keyed(job_key(vault, attempt), {"count": len(rows), "parts": len(parts), "through": 0})
        if sum(map(len, parts)) * 4 // 3 <= MAX_BYTES:
            staged = stage(vault, attempt, parts)
        else:
            staged = self._stage_before(vault, attempt, parts, now_ms)
        self._table.transact([counters.write(vault), *claim, put(job), *staged])

    def _stage_before(self, vault: VaultRef, attempt: str, parts: Sequence[bytes], now_ms: int) -> list[Wire]:
        """Write parts that the commit point has no room for, and keep them from expiring: the last of them by what is
        returned, with the commit point itself, as many as a transaction can change.
        """
        keys = [part_key(vault, attempt, number) for number in range(len(parts))]
        for key, part in zip(keys, parts, strict=True):
            self._table.write(put(keyed(key, {"rows": part, TTL: seconds(now_ms + STAGED_MS)})))
        kept = [update(key, f"REMOVE #{TTL}", "attribute_exists(#pk)") for key in keys]
        sizes = [len(part) for part in parts]
        while (size := fitting(sizes)) < len(kept):
            try:
                self._table.transact(kept[:size])
            except ConditionFailed as failed:
                raise ConditionFailed([], {}) from failed
            kept, sizes = kept[size:], sizes[size:]
        return kept

    def waiting(self, vault: VaultRef) -> Iterator[str]:
        """Attempts whose rows are certain and not all published."""
        for item in self._table.query(partition(vault), low="A#", high="A$", attributes=("sk",)):
            yield id_of(item["sk"])

    def finish(self, vault: VaultRef, attempt: str) -> None:
        """Publish what is not published yet. Raises `StaleEpoch`."""
        rows: list[Memory] | None = None
        for _ in self._table.rounds():
            job = self._table.get(job_key(vault, attempt))
            if job is None:
                return
            if job["through"] >= job["count"]:
                rows = []
            elif rows is None:
                rows = staged_rows(self._table, vault, attempt, job["parts"])
            if rows is None:
                job = self._table.get(job_key(vault, attempt))
                if job is not None and job["through"] < job["count"]:
                    raise lost("the staged rows of a write")
                continue
            if self._publish(vault, attempt, job, rows):
                return

    def _publish(self, vault: VaultRef, attempt: str, job: Item, rows: Sequence[Memory]) -> bool:
        """Publish the rows, then remove the parts, until the job is done; False when another hand was faster.

        `through` counts both. `rows` may be empty when only parts are left.
        """
        through, total, parts = job["through"], job["count"], job["parts"]
        while True:
            chunk = rows[through : through + one_chunk(rows[through:], MAX_OPERATIONS - 2)]
            following = through + len(chunk)
            counters = Counters()
            for row in chunk:
                counters.enter(row)
            counters.pending(-len(chunk))
            operations = [put(memory_item(vault, row)) for row in chunk]
            if following >= total:
                used = sum(map(row_bytes, chunk))
                room = min(MAX_OPERATIONS - 2 - len(chunk), (MAX_BYTES - used) // PART_BYTES)
                gone = range(following - total, min(parts, following - total + max(room, 0 if chunk else 1)))
                operations += unstage(vault, attempt, gone)
                following += len(gone)
            last = following == total + parts
            key, unmoved = job_key(vault, attempt), "#through = :through"
            if last:
                step = delete(key, unmoved, through=through)
            else:
                step = update(key, "SET #through = :next", unmoved, through=through, next=following)
            try:
                self._table.transact([counters.write(vault), step, *operations])
            except ConditionFailed as failed:
                if 0 in failed.places:
                    raise stale() from failed
                return False
            if last:
                return True
            through = following
