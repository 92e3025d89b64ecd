"""Checkout: the oldest free rows of a pool under a lease, in three written items whatever their number."""

from __future__ import annotations

from collections.abc import Sequence

from shared.adapters.dynamodb.consolidation import ConsolidationVerbs
from shared.adapters.dynamodb.counters import check_writable
from shared.adapters.dynamodb.layout import (
    POOL,
    TTL,
    counters_key,
    header_item,
    header_key,
    header_values,
    id_of,
    keyed,
    ledger_key,
    list_key,
    pack_ids,
    partition,
    unpack_ids,
)
from shared.adapters.dynamodb.leases import Ledger, Opened, fence, leave
from shared.adapters.dynamodb.table import ConditionFailed
from shared.adapters.dynamodb.values import put
from shared.domain.batch import MAX_LEASED_ROWS, Batch, State
from shared.domain.lineage import covers_of
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget, Selection
from shared.domain.sizes import wire_bytes
from shared.ports.store import CheckedOut, Lease, NothingFree

FENCED_AT_ONCE = 90
WALKED_AT_ONCE = 500


class CheckoutVerbs(ConsolidationVerbs):
    """`checkout` of the store."""

    def checkout(self, vault: VaultRef, tier: int, budget: Budget, lease: Lease) -> CheckedOut | NothingFree:
        lists: dict[str, frozenset[str]] = {}
        for _ in self._table.rounds():
            found = self._try(vault, tier, budget, lease, lists)
            if found is not None:
                return found
        raise AssertionError("rounds end by raising")

    def _try(
        self, vault: VaultRef, tier: int, budget: Budget, lease: Lease, lists: dict[str, frozenset[str]]
    ) -> CheckedOut | NothingFree | None:
        """One round; None when the table changed under it. `lists` keeps the source lists that were read before."""
        ledger = self._ledger(vault, tier)
        overdue = [name for name, entry in ledger.open.items() if entry.expires_ms <= lease.now_ms]
        expired, strays, healed = self._sorted_out(vault, overdue, lease.now_ms)
        if len(expired) + len(strays) > FENCED_AT_ONCE:
            self._clear(vault, tier, expired, strays, lease.now_ms)
            return None
        leaving = expired + strays
        off = {*leaving, *healed}
        standing = Ledger(tier, ledger.version, {name: e for name, e in ledger.open.items() if name not in off})
        if not self._read_lists(vault, standing, lists):
            return None
        leased = frozenset[str]().union(*(lists[name] for name in standing.open))
        ids, skipped = self._walk(vault, tier, budget, leased, standing, lease.now_ms)
        if not ids:
            if leaving:
                self._clear(vault, tier, expired, strays, lease.now_ms)
                return None
            if (ledger.open and self._settled_some(vault, standing)) or self._ledger(vault, tier) != ledger:
                return None
            expiry = min((entry.expires_ms for entry in standing.open.values()), default=None)
            return NothingFree(skipped, expiry if skipped else None)
        chosen = self._chosen(vault, ids, budget)
        if not chosen:
            return None
        batch = _batch(tier, chosen, lease)
        values = header_values(batch)
        source_list = {"ids": pack_ids(row.id for row in chosen), TTL: values[TTL]}
        try:
            self._table.transact(
                [
                    put(header_item(vault, batch)),
                    put(keyed(list_key(vault, batch.id), source_list)),
                    ledger.enter(vault, batch.id, Opened(batch.expires_ms, batch.count), leaving),
                    *(fence(vault, name, lease.now_ms) for name in expired),
                ],
                insist=False,
            )
        except ConditionFailed:
            return None
        return CheckedOut(batch, chosen)

    def _ledger(self, vault: VaultRef, tier: int) -> Ledger:
        """The ledger as it is. Raises `StaleEpoch`; finishes large writes that somebody left."""
        items = self._table.get_all([counters_key(vault), ledger_key(vault, tier)])
        counters = items.get("D")
        check_writable(counters)
        if counters is not None and counters.get("pending", 0) > 0:
            for attempt in self._staging.waiting(vault):
                self._staging.finish(vault, attempt)
        return Ledger.read(tier, items.get(f"L#{tier}"))

    def _sorted_out(self, vault: VaultRef, names: Sequence[str], now_ms: int) -> tuple[list[str], list[str], list[str]]:
        """Of batches past their expiry on the ledger: those to fence, strays, and those that were helped to settle."""
        expired: list[str] = []
        strays: list[str] = []
        healed: list[str] = []
        headers = self._table.get_all([header_key(vault, name) for name in names])
        for name in names:
            header = headers.get(f"B#{name}")
            state = None if header is None else State(header["state"])
            if header is not None and state is State.LEASED:
                if header["expires"] <= now_ms:
                    expired.append(name)
            elif header is not None and (state is State.COMMITTED or "undoing" in header):
                self.heal(vault, name)
                healed.append(name)
            else:
                strays.append(name)
        return expired, strays, healed

    def _settled_some(self, vault: VaultRef, ledger: Ledger) -> bool:
        """Help batches that were committed and hold rows no longer; says whether there was any."""
        headers = self._table.get_all([header_key(vault, name) for name in ledger.open])
        committed = [id_of(item["sk"]) for item in headers.values() if item["state"] == State.COMMITTED.value]
        for name in committed:
            self.heal(vault, name)
        return bool(committed)

    def _clear(self, vault: VaultRef, tier: int, expired: Sequence[str], strays: Sequence[str], now_ms: int) -> None:
        """Fence and take off the ledger, as many as one transaction holds. Whoever is faster does it as well."""
        expired, strays = expired[:FENCED_AT_ONCE], strays[: max(0, FENCED_AT_ONCE - len(expired))]
        fences = [fence(vault, name, now_ms) for name in expired]
        try:
            self._table.transact([leave(vault, tier, [*expired, *strays]), *fences])
        except ConditionFailed:
            return

    def _read_lists(self, vault: VaultRef, ledger: Ledger, lists: dict[str, frozenset[str]]) -> bool:
        """Have the source lists of all open batches; False when one is gone, so that the ledger must be read again."""
        missing = [name for name in ledger.open if name not in lists]
        items = self._table.get_all([list_key(vault, name) for name in missing])
        for name in missing:
            item = items.get(f"B#{name}#S0")
            if item is None:
                return False
            lists[name] = frozenset(unpack_ids(item["ids"]))
        return True

    def _walk(
        self, vault: VaultRef, tier: int, budget: Budget, leased: frozenset[str], ledger: Ledger, now_ms: int
    ) -> tuple[list[str], int]:
        """Ids of the oldest free rows up to the budget, and how many leased ones were passed by."""
        selection = Selection(budget)
        ids: list[str] = []
        skipped = 0
        walk = self._table.query(
            partition(vault), POOL, low=f"{tier}#", high=f"{tier}$", limit=WALKED_AT_ONCE, attributes=(POOL, "k", "i")
        )
        for item in walk:
            memory_id = id_of(item[POOL])
            if memory_id in leased:
                skipped += 1
                continue
            if not ids:
                ledger.check_room(len(leased), now_ms)
            if not selection.take(item["k"], item.get("i", 0), 0):
                break
            ids.append(memory_id)
            if selection.full or len(leased) + len(ids) >= MAX_LEASED_ROWS:
                break
        return ids, skipped

    def _chosen(self, vault: VaultRef, ids: Sequence[str], budget: Budget) -> tuple[Memory, ...]:
        """The rows that are still free, cut where their texts fill an answer."""
        rows = self.get(vault, ids)
        selection = Selection(budget)
        chosen: list[Memory] = []
        for memory_id in ids:
            row = rows.get(memory_id)
            if row is None or row.consolidated_by is not None:
                continue
            if not selection.take(row.tokens, row.importance or 0, wire_bytes(row.text)):
                break
            chosen.append(row)
            if selection.full:
                break
        return tuple(chosen)


def _batch(tier: int, chosen: Sequence[Memory], lease: Lease) -> Batch:
    return Batch(
        id=lease.batch_id,
        tier=tier,
        state=State.LEASED,
        count=len(chosen),
        tokens=sum(row.tokens for row in chosen),
        covers=covers_of(chosen),
        leased_ms=lease.now_ms,
        expires_ms=lease.now_ms + lease.lease_ms,
        lease_ms=lease.lease_ms,
    )
