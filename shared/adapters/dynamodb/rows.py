"""Rows come, are read, and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from shared.adapters.dynamodb.counters import Counters, check_readable, stale, to_debt
from shared.adapters.dynamodb.layout import (
    TTL,
    UNMARKED,
    counters_key,
    header_key,
    memory_item,
    memory_key,
    once_key,
    pack_ids,
    partition,
    seconds,
    to_memory,
    unpack_ids,
)
from shared.adapters.dynamodb.staging import MAX_BYTES, Staging, fits, weight
from shared.adapters.dynamodb.table import ConditionFailed, Table
from shared.adapters.dynamodb.values import Item, Wire, delete, put, to_item, update
from shared.domain.debt import Debt
from shared.domain.memory import Memory, VaultRef
from shared.domain.refusals import another_body
from shared.ports.store import Appended, Deleted, Idempotency

DELETED_AT_ONCE = 48
"""Rows of one transaction of a deletion: each may need its batch's header, and the counters come along."""


class RowVerbs:
    """The part of the store that handles rows one by one."""

    def __init__(self, table: Table, noted: Callable[[VaultRef], None]) -> None:
        """`noted` is told of every content whose rows changed."""
        self._table = table
        self._noted = noted
        self._staging = Staging(table)

    def append(self, vault: VaultRef, rows: Sequence[Memory], once: Idempotency | None, now_ms: int) -> Appended:
        attempt = None if fits(rows) else rows[0].id
        claim = [] if once is None else [_claim(vault, once, rows, attempt, now_ms)]
        for _ in self._table.rounds():
            try:
                if attempt is None:
                    self._write(vault, rows, claim)
                else:
                    self._staging.commit(vault, attempt, rows, claim, now_ms)
                break
            except ConditionFailed as failed:
                # The counters come first, the claim after them.
                if 0 in failed.places:
                    raise stale() from failed
                if once is not None and 1 in failed.places:
                    return self._replayed(vault, once, failed.items[1])
        if attempt is not None:
            self._staging.finish(vault, attempt)
        if rows:
            self._noted(vault)
        return Appended(tuple(row.id for row in rows), self.debt(vault), replayed=False)

    def _write(self, vault: VaultRef, rows: Sequence[Memory], claim: list[Wire]) -> None:
        counters = Counters()
        for row in rows:
            counters.enter(row)
        self._table.transact([counters.write(vault), *claim, *(put(memory_item(vault, row)) for row in rows)])

    def _replayed(self, vault: VaultRef, once: Idempotency, first: Item) -> Appended:
        if first["body"] != once.body_hash:
            raise another_body()
        if "attempt" in first:
            self._staging.finish(vault, first["attempt"])
        return Appended(tuple(unpack_ids(first["ids"])), self.debt(vault), replayed=True)

    def debt(self, vault: VaultRef) -> Debt:
        item = self._table.get(counters_key(vault))
        check_readable(item)
        return to_debt(item)

    def change_counter(self, vault: VaultRef) -> int:
        """Moved by every transaction in which rows come or go: whoever read it first read rows at least that new."""
        item = self._table.get(counters_key(vault))
        return 0 if item is None else int(item["seq"])

    def get(self, vault: VaultRef, ids: Sequence[str]) -> dict[str, Memory]:
        return self.get_with_debt(vault, ids)[0]

    def get_with_debt(self, vault: VaultRef, ids: Sequence[str]) -> tuple[dict[str, Memory], Debt]:
        items, counters = self._with_counters(vault, ids)
        return {memory.id: memory for memory in map(to_memory, items.values())}, to_debt(counters)

    def _with_counters(
        self, vault: VaultRef, ids: Sequence[str], attributes: Sequence[str] = ()
    ) -> tuple[dict[str, Item], Item | None]:
        """The rows that exist, by sort key, and the counters. Raises `StaleEpoch` for a content that was dropped."""
        wanted = [*attributes, "sealed"] if attributes else ()
        keys = [counters_key(vault), *(memory_key(vault, memory_id) for memory_id in ids)]
        items = self._table.get_all(keys, wanted)
        counters = items.pop("D", None)
        check_readable(counters)
        return items, counters

    def delete(self, vault: VaultRef, ids: Sequence[str], now_ms: int) -> Deleted:
        gone: list[tuple[str, int]] = []
        missing: list[str] = []
        for start in range(0, len(ids), DELETED_AT_ONCE):
            chunk = ids[start : start + DELETED_AT_ONCE]
            removed = self._delete_chunk(vault, chunk)
            if removed:
                self._noted(vault)
            gone += [(memory_id, removed[memory_id]) for memory_id in chunk if memory_id in removed]
            missing += [memory_id for memory_id in chunk if memory_id not in removed]
        return Deleted(tuple(gone), tuple(missing))

    def _delete_chunk(self, vault: VaultRef, ids: Sequence[str]) -> dict[str, int]:
        """The tokens of the rows removed, by id."""
        for _ in self._table.rounds():
            items, _ = self._with_counters(vault, ids, ("t", "k", "i", "by"))
            if not items:
                break
            if len(items) > 1 and sum(map(weight, items.values())) > MAX_BYTES:
                middle = len(ids) // 2
                return self._delete_chunk(vault, ids[:middle]) | self._delete_chunk(vault, ids[middle:])
            counters = Counters()
            gaps: Counter[str] = Counter()
            operations: list[Wire] = []
            for sort, item in items.items():
                counters.row(-1, item["t"], item["k"])
                if "by" in item:
                    gaps[item["by"]] += 1
                    operations.append(delete((partition(vault), sort), "#by = :by", by=item["by"]))
                else:
                    counters.pool(-1, item["t"], item["k"], item.get("i", 0))
                    operations.append(delete((partition(vault), sort), UNMARKED))
            headers = [_gap(vault, batch_id, rows) for batch_id, rows in sorted(gaps.items())]
            try:
                self._table.transact([counters.write(vault), *headers, *operations])
            except ConditionFailed as failed:
                if 0 in failed.places:
                    raise stale() from failed
                continue
            return {sort.removeprefix("M#"): item["k"] for sort, item in items.items()}
        return {}

    def read_rows(self, vault: VaultRef, ids: Sequence[str], attributes: Sequence[str]) -> dict[str, Item]:
        """Some attributes of the rows that exist, by id."""
        items = self._table.get_all([memory_key(vault, memory_id) for memory_id in ids], attributes)
        return {sort.removeprefix("M#"): item for sort, item in items.items()}


def _claim(vault: VaultRef, once: Idempotency, rows: Sequence[Memory], attempt: str | None, now_ms: int) -> Wire:
    """The record of a request's answer, written unless one is there that has not expired."""
    pk, sk = once_key(vault, once.key_hash)
    values = {
        "pk": pk, "sk": sk, "body": once.body_hash, "ids": pack_ids(row.id for row in rows), "attempt": attempt,
        "expires": once.expires_ms, TTL: seconds(once.expires_ms),
    }  # fmt: skip
    return put(to_item(values), "attribute_not_exists(#pk) OR #expires <= :now", now=now_ms)


def _gap(vault: VaultRef, batch_id: str, rows: int) -> Wire:
    """Sources of a batch are deleted."""
    return update(header_key(vault, batch_id), "ADD #deleted :rows", "attribute_exists(#pk)", rows=rows)
