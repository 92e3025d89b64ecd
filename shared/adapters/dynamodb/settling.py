"""Settling a committed batch: its reflections are published, its sources marked.

It goes in chunks, each one transaction that moves `through` in the header, so that any number of hands may settle one
batch, each chunk is done once, and whoever comes after a crash goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.adapters.dynamodb.counters import Counters, stale
from shared.adapters.dynamodb.layout import PART_BYTES, POOL, UNMARKED, header_key, memory_item, memory_key, to_batch
from shared.adapters.dynamodb.leases import LeaseVerbs, leave
from shared.adapters.dynamodb.staging import (
    MAX_BYTES,
    fitting,
    lost,
    one_chunk,
    row_bytes,
    staged_rows,
    unstage,
    weight,
)
from shared.adapters.dynamodb.table import MAX_OPERATIONS, ConditionFailed
from shared.adapters.dynamodb.values import Item, Wire, put, update
from shared.domain.batch import Batch, State
from shared.domain.memory import Memory, VaultRef

MARKED = ("t", "k", "i", "by")
STEP_ROOM = MAX_OPERATIONS - 2
"""Rows of one chunk, besides header and counters."""


class SettleVerbs(LeaseVerbs):
    """The way from committed to settled."""

    def _settle(self, vault: VaultRef, header: Item, sources: Sequence[str]) -> bool:
        """Publish the reflections, then mark the sources; False when another hand moved the batch meanwhile."""
        batch = to_batch(header)
        through, written = header["through"], len(batch.created)
        rows: list[Memory] | None = []
        if through < written:
            rows = staged_rows(self._table, vault, header["attempt"], header["parts"])
        if rows is None:
            if self._table.get(header_key(vault, batch.id)) == header:
                raise lost("the reflections of a commit")
            return False
        total = written + len(sources)
        while True:
            counters = Counters()
            chunk = rows[through : through + one_chunk(rows[through:], STEP_ROOM)]
            for row in chunk:
                counters.enter(row)
            operations = [put(memory_item(vault, row)) for row in chunk]
            size = sum(map(row_bytes, chunk))
            following = through + len(chunk)
            gone = 0
            if following >= written:
                start = following - written
                marked = sources[start : start + STEP_ROOM - len(chunk)]
                items = self.read_rows(vault, marked, MARKED)
                weights = [weight(items.get(name)) for name in marked]
                marked = marked[: fitting(weights, size)]
                size += sum(weights[: len(marked)])
                marks = _marks(vault, batch, marked, items, start, counters)
                operations += marks
                gone = len(marked) - len(marks)
                following += len(marked)
            parts = range(header["parts"])
            leaving = [leave(vault, batch.tier, [batch.id]), *unstage(vault, header["attempt"], parts)]
            fits = len(operations) + len(leaving) <= STEP_ROOM and size + len(parts) * PART_BYTES <= MAX_BYTES
            last = following == total and (fits or not operations)
            step = _step(vault, batch, through, following, gone, settled=last)
            try:
                self._table.transact([counters.write(vault), step, *operations, *(leaving if last else ())])
            except ConditionFailed as failed:
                if 0 in failed.places:
                    raise stale() from failed
                return False
            if last:
                self._noted(vault)
                return True
            through = following


def _marks(
    vault: VaultRef, batch: Batch, ids: Sequence[str], items: Mapping[str, Item], start: int, counters: Counters
) -> list[Wire]:
    """Marks for those of the sources that are there, each on condition that it stays so."""
    marks = []
    for place, memory_id in enumerate(ids, start):
        item = items.get(memory_id)
        if item is None or "by" in item:
            continue
        counters.pool(-1, item["t"], item["k"], item.get("i", 0))
        marks.append(
            update(
                memory_key(vault, memory_id),
                f"SET #by = :batch, #at = :place REMOVE #{POOL}",
                UNMARKED,
                batch=batch.id,
                place=place,
            )
        )
    return marks


def _step(vault: VaultRef, batch: Batch, through: int, following: int, gone: int, *, settled: bool) -> Wire:
    """Move a committed batch on from `through`, and only from there. Sources that are gone count as deleted."""
    change = "SET #through = :next" + (", #state = :settled" if settled else "") + " ADD #deleted :gone"
    return update(
        header_key(vault, batch.id),
        change,
        "#state = :committed AND #through = :through",
        None,
        committed=State.COMMITTED.value,
        through=through,
        next=following,
        gone=gone,
        **({"settled": State.SETTLED.value} if settled else {}),
    )
