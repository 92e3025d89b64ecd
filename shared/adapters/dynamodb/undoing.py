"""Undoing a consolidation: its reflections go, its sources come back into the pool."""

from __future__ import annotations

from collections.abc import Sequence

from shared.adapters.dynamodb.counters import Counters, stale
from shared.adapters.dynamodb.layout import (
    POOL,
    UNMARKED,
    header_key,
    ledger_key,
    list_key,
    memory_key,
    pool_key,
    to_batch,
    unpack_ids,
)
from shared.adapters.dynamodb.leases import LeaseVerbs, Ledger, Opened, fence, leave
from shared.adapters.dynamodb.staging import fitting, weight
from shared.adapters.dynamodb.table import MAX_OPERATIONS, ConditionFailed
from shared.adapters.dynamodb.values import Item, Wire, delete, update
from shared.domain.batch import Batch, State
from shared.domain.memory import VaultRef
from shared.domain.refusals import reflections_in_use

UNDO_ROOM = MAX_OPERATIONS - 3
RETURNED = ("t", "d", "k", "i", "cf", "by")
REMOVED = ("t", "k", "i", "by")


class UndoVerbs(LeaseVerbs):
    """The way from settled to reopened."""

    def _flip_back(self, vault: VaultRef, batch: Batch, now_ms: int) -> bool:
        """The point from which the undoing is certain; False when something moved meanwhile.

        The reflections stand on the next tier's ledger from here on, expired already, so that nobody leases them.
        Raises `Conflict` when one of them is consolidated or leased.
        """
        next_tier = batch.tier + 1
        # Read before the reflections: no lease that comes later goes unnoticed.
        ledger = Ledger.read(next_tier, self._table.get(ledger_key(vault, next_tier)))
        created = [each.id for each in batch.created]
        expired, held = self._holders(vault, ledger, frozenset(created), now_ms)
        # Read after the leases: one that was settled since has marked its rows.
        rows = self.read_rows(vault, created, REMOVED)
        if any("by" in row or name in held for name, row in rows.items()):
            raise reflections_in_use()
        header = update(
            header_key(vault, batch.id),
            "SET #state = :reopened, #undoing = :zero, #removed = :zero, #returned = :zero",
            "#state = :settled",
            reopened=State.REOPENED.value,
            settled=State.SETTLED.value,
            zero=0,
        )
        entry = Opened(0, len(created), undo=True)
        try:
            self._table.transact(
                [
                    header,
                    ledger.enter(vault, batch.id, entry, expired),
                    *(fence(vault, name, now_ms) for name in expired),
                ]
            )
        except ConditionFailed:
            return False
        return True

    def _holders(
        self, vault: VaultRef, ledger: Ledger, created: frozenset[str], now_ms: int
    ) -> tuple[list[str], frozenset[str]]:
        """Expired leases that hold one of the reflections, and those of the reflections that a live batch holds."""
        keys = [key for name in ledger.open for key in (header_key(vault, name), list_key(vault, name))]
        items = self._table.get_all(keys)
        expired: list[str] = []
        held: frozenset[str] = frozenset()
        for name, entry in ledger.open.items():
            source_list, header = items.get(f"B#{name}#S0"), items.get(f"B#{name}")
            if entry.undo or source_list is None or header is None:
                continue
            shared = created.intersection(unpack_ids(source_list["ids"]))
            if shared and header["state"] == State.LEASED.value and header["expires"] <= now_ms:
                expired.append(name)
            elif header["state"] in (State.LEASED.value, State.COMMITTED.value):
                held |= shared
        return expired, held

    def _undo(self, vault: VaultRef, header: Item, sources: Sequence[str]) -> bool:
        """Remove the reflections, then give the sources back; False when another hand moved the batch meanwhile."""
        batch = to_batch(header)
        through = header["undoing"]
        ids = [*(each.id for each in batch.created), *sources]
        written = len(batch.created)
        while True:
            chunk = ids[through : through + UNDO_ROOM]
            items = self.read_rows(vault, chunk, RETURNED)
            following = through + fitting([weight(items.get(name)) for name in chunk])
            counters = Counters()
            removals = [
                _removal(vault, name, items[name], counters)
                for name in ids[through : min(following, written)]
                if name in items
            ]
            returns = [
                _return(vault, name, items[name], counters)
                for name in ids[max(through, written) : following]
                if name in items and items[name].get("by") == batch.id
            ]
            last = following == len(ids)
            step = update(
                header_key(vault, batch.id),
                ("REMOVE #undoing" if last else "SET #undoing = :next") + " ADD #removed :removed, #returned :returned",
                "#undoing = :through",
                None,
                through=through,
                removed=len(removals),
                returned=len(returns),
                **({} if last else {"next": following}),
            )
            leaving = [leave(vault, batch.tier + 1, [batch.id])] if last else []
            try:
                self._table.transact([counters.write(vault), step, *leaving, *removals, *returns])
            except ConditionFailed as failed:
                if 0 in failed.places:
                    raise stale() from failed
                return False
            self._noted(vault)
            if last:
                return True
            through = following


def _removal(vault: VaultRef, memory_id: str, item: Item, counters: Counters) -> Wire:
    counters.row(-1, item["t"], item["k"])
    counters.pool(-1, item["t"], item["k"], item.get("i", 0))
    return delete(memory_key(vault, memory_id), UNMARKED)


def _return(vault: VaultRef, memory_id: str, item: Item, counters: Counters) -> Wire:
    counters.pool(1, item["t"], item["k"], item.get("i", 0))
    return update(
        memory_key(vault, memory_id),
        f"SET #{POOL} = :pool REMOVE #by, #at",
        "#by = :batch",
        pool=pool_key(item["t"], item["cf"] if "cf" in item else item["d"], memory_id),
        batch=item["by"],
    )
