"""The store's part of an import: rows and headers written as they were, checked before they become visible.

Every step demands that the import is still open, in the counters' item: so a page that comes late, or a completion
that saw less than everything, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from shared.adapters.dynamodb.counters import DROPPED, SEALED, Counters, check_writable, rows_of, stale
from shared.adapters.dynamodb.layout import (
    counters_key,
    header_item,
    header_key,
    id_of,
    keyed,
    list_key,
    memory_item,
    memory_key,
    pack_ids,
    partition,
    to_batch,
)
from shared.adapters.dynamodb.rows import RowVerbs
from shared.adapters.dynamodb.staging import MAX_BYTES, one_chunk
from shared.adapters.dynamodb.table import MAX_OPERATIONS, ConditionFailed
from shared.adapters.dynamodb.values import Item, Wire, put, update
from shared.domain.batch import Batch
from shared.domain.errors import InvalidRequest, StaleEpoch
from shared.domain.memory import TIERS, Memory, VaultRef

OPEN = "attribute_not_exists(#imported)"
ABSENT = "attribute_not_exists(#pk)"
LINEAGE = ("sk", "t", "o", "by", "at")
HEADERS_AT_ONCE = 90
"""A header is at most some 7 KB: a hundred created reflections."""


class RestoreVerbs(RowVerbs):
    """The part of the store that takes an export back."""

    def restore(self, vault: VaultRef, rows: Sequence[Memory], batches: Sequence[Batch], now_ms: int) -> int:
        for _ in self._table.rounds():
            new_rows, new_batches = self._unknown(vault, rows, batches)
            try:
                for start in range(0, len(new_batches), HEADERS_AT_ONCE):
                    self._write_headers(vault, new_batches[start : start + HEADERS_AT_ONCE])
                while new_rows:
                    size = one_chunk(new_rows, MAX_OPERATIONS - 1)
                    self._write_new(vault, new_rows[:size])
                    new_rows = new_rows[size:]
            except ConditionFailed:
                continue
            counters = self._table.get(counters_key(vault))
            check_writable(counters)
            return sum(rows_of(counters).values())
        raise AssertionError("rounds end by raising")

    def _unknown(
        self, vault: VaultRef, rows: Sequence[Memory], batches: Sequence[Batch]
    ) -> tuple[list[Memory], list[Batch]]:
        """What is not there yet. Raises `StaleEpoch` for a content that takes no writes, or no new rows any more."""
        named = {memory_key(vault, row.id): row for row in rows}
        headers = {header_key(vault, batch.id): batch for batch in batches}
        items = self._table.get_all([counters_key(vault), *named, *headers], ("sealed", "imported"))
        counters = items.get("D")
        check_writable(counters)
        new_rows = [row for (_, sort), row in named.items() if sort not in items]
        if counters is not None and "imported" in counters:
            if new_rows:
                raise StaleEpoch("The import was finished while this page was sent.")
            return [], []
        return new_rows, [batch for (_, sort), batch in headers.items() if sort not in items]

    def _write_headers(self, vault: VaultRef, batches: Sequence[Batch]) -> None:
        headers = [put(header_item(vault, batch), ABSENT) for batch in batches]
        # The change counter moves, so that a completion which did not see these headers begins again.
        guard = f"attribute_not_exists(#sealed) AND {OPEN}"
        self._table.transact([update(counters_key(vault), "ADD #seq :one", guard, one=1), *headers])

    def _write_new(self, vault: VaultRef, rows: Sequence[Memory]) -> None:
        counters = Counters()
        for row in rows:
            counters.enter(row)
        self._table.transact([counters.write(vault, OPEN), *(put(memory_item(vault, row), ABSENT) for row in rows)])
        self._noted(vault)

    def seal(self, vault: VaultRef) -> bool:
        counted = [*(f"rows{tier}" for tier in TIERS), "pending"]
        empty = " AND ".join(f"(attribute_not_exists(#{name}) OR #{name} = :zero)" for name in counted)
        sealing = update(
            counters_key(vault),
            "SET #sealed = :sealed",
            f"attribute_not_exists(#sealed) AND {empty}",
            sealed=SEALED,
            zero=0,
        )
        try:
            self._table.write(sealing)
        except ConditionFailed:
            sealed = (self._table.get(counters_key(vault)) or {}).get("sealed")
            if sealed == DROPPED:
                raise stale() from None
            return bool(sealed == SEALED)
        return True

    def complete_import(self, vault: VaultRef) -> None:
        for _ in self._table.rounds():
            # Read first: whatever comes after it moves the change counter, and the completion begins again.
            counters = self._table.get(counters_key(vault))
            check_writable(counters)
            if counters is not None and "imported" in counters:
                return
            known = self._table.query(partition(vault), low="B#", high="B$", only="attribute_exists(#state)")
            headers = {batch.id: batch for batch in map(to_batch, known)}
            places = _checked(self._table.query(partition(vault), low="M#", high="M$", attributes=LINEAGE), headers)
            try:
                for operations in _lists(vault, headers, places):
                    self._table.transact([_unchanged(vault, counters), *operations])
                self._table.transact([_unchanged(vault, counters, imported=True)])
            except ConditionFailed:
                continue
            return
        raise AssertionError("rounds end by raising")


def _checked(rows: Iterator[Item], headers: Mapping[str, Batch]) -> dict[str, dict[int, str]]:
    """By batch, who sits at which position. Raises `InvalidRequest` naming what is wrong, incompleteness first."""
    twice: set[tuple[str, int]] = set()
    places: dict[str, dict[int, str]] = {}
    named: set[str] = set()
    wrong: set[str] = set()
    for row in rows:
        origin, by = row.get("o"), row.get("by")
        if origin is not None:
            named.add(origin)
            if origin in headers and headers[origin].tier != row["t"] - 1:
                wrong.add(origin)
        if by is not None:
            named.add(by)
            here = places.setdefault(by, {})
            if row["at"] in here:
                twice.add((by, row["at"]))
            here[row["at"]] = id_of(row["sk"])
            if by in headers and (headers[by].tier != row["t"] or row["at"] >= headers[by].count):
                wrong.add(by)
    if missing := min(named - headers.keys(), default=None):
        raise InvalidRequest(
            f"The import is incomplete: no line carried the batch {missing}.",
            hint="Send every page of the export, then finish.",
        )
    if twice:
        name, place = min(twice)
        raise InvalidRequest(f"Two lines claim position {place} of batch {name}.")
    if wrong:
        raise InvalidRequest(f"Lines disagree about the batch {min(wrong)}.")
    return places


def _lists(
    vault: VaultRef, headers: Mapping[str, Batch], places: Mapping[str, Mapping[int, str]]
) -> Iterator[list[Wire]]:
    """Writes of all source lists and of the counts of sources that did not come, transaction by transaction."""
    operations: list[Wire] = []
    size = 0
    for name, batch in headers.items():
        here = places.get(name, {})
        packed = pack_ids(here.get(place) for place in range(batch.count))
        if operations and (size + len(packed) > MAX_BYTES or len(operations) + 3 > MAX_OPERATIONS):
            yield operations
            operations, size = [], 0
        deleted = batch.count - len(here)
        operations += [
            put(keyed(list_key(vault, name), {"ids": packed})),
            update(header_key(vault, name), "SET #deleted = :deleted", "attribute_exists(#pk)", deleted=deleted),
        ]
        size += len(packed)
    if operations:
        yield operations


def _unchanged(vault: VaultRef, seen: Item | None, *, imported: bool = False) -> Wire:
    """Fails when the content takes no writes, is imported already, or changed since the counters were read."""
    seq = 0 if seen is None else seen["seq"]
    since = ABSENT if seen is None else "#seq = :seq"
    guard = f"attribute_not_exists(#sealed) AND {OPEN} AND {since}"
    change = "SET #seq = :seq" + (", #imported = :imported" if imported else "")
    return update(counters_key(vault), change, guard, None, seq=seq, **({"imported": True} if imported else {}))
