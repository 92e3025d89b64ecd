"""Headers and ledgers: which batches are open, and how a lease ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared.adapters.dynamodb.counters import check_readable
from shared.adapters.dynamodb.layout import counters_key, header_key, ledger_key, list_key, to_batch, unpack_ids
from shared.adapters.dynamodb.rows import RowVerbs
from shared.adapters.dynamodb.staging import lost
from shared.adapters.dynamodb.table import ConditionFailed
from shared.adapters.dynamodb.values import Item, Wire, put, to_item, update
from shared.domain import refusals
from shared.domain.batch import (
    Batch,
    State,
    is_renewal_replay,
    refuse_commit,
    refuse_renewal,
)
from shared.domain.memory import VaultRef
from shared.ports.store import Released, Renewed

PART_MARK = "#"
"""Parts a batch's name from that of its source list; a client may ask for any name, and this is in no batch's."""
COMMITTED = (State.COMMITTED, State.SETTLED)
LIVE = ("by",)


@dataclass(frozen=True, slots=True)
class Opened:
    """A batch on the ledger. `undo` marks the rows of a consolidation that is being undone; nobody may lease them."""

    expires_ms: int
    rows: int
    undo: bool = False

    def value(self) -> dict[str, object]:
        return {"x": self.expires_ms, "n": self.rows, **({"u": True} if self.undo else {})}


@dataclass(frozen=True, slots=True)
class Ledger:
    """The open batches of one tier. `version` is moved by every batch that enters; 0 before the first one."""

    tier: int
    version: int = 0
    open: Mapping[str, Opened] = field(default_factory=dict)

    @classmethod
    def read(cls, tier: int, item: Item | None) -> Ledger:
        if item is None:
            return cls(tier)
        opened = {name: Opened(each["x"], each["n"], each.get("u", False)) for name, each in item["open"].items()}
        return cls(tier, item["version"], opened)

    def enter(self, vault: VaultRef, batch_id: str, entry: Opened, leaving: Sequence[str] = ()) -> Wire:
        """Put a batch on the ledger and take others off, if nothing entered since it was read."""
        key = ledger_key(vault, self.tier)
        if not self.version:
            item = {"pk": key[0], "sk": key[1], "version": 1, "open": {batch_id: entry.value()}}
            return put(to_item(item), "attribute_not_exists(#pk)")
        names = {"#new": batch_id, **{f"#gone{number}": name for number, name in enumerate(leaving)}}
        removed = ", ".join(f"#open.#gone{number}" for number in range(len(leaving)))
        return update(
            key,
            "SET #version = #version + :one, #open.#new = :entry" + (f" REMOVE {removed}" if removed else ""),
            "#version = :version",
            names,
            one=1,
            version=self.version,
            entry=entry.value(),
        )

    def check_room(self, leased: int, now_ms: int) -> None:
        """Raises `RateLimited` when no further lease fits."""
        expiry = min((each.expires_ms for each in self.open.values()), default=None)
        refusals.check_room(len(self.open), leased, expiry, now_ms)


def leave(vault: VaultRef, tier: int, batch_ids: Sequence[str]) -> Wire:
    """Take batches off the ledger."""
    names = {f"#gone{number}": name for number, name in enumerate(batch_ids)}
    removed = ", ".join(f"#open.{name}" for name in names)
    # Of a ledger that is gone with its content a condition fails; without one the request itself would be refused.
    return update(ledger_key(vault, tier), f"REMOVE {removed}", "attribute_exists(#open)", names)


def fence(vault: VaultRef, batch_id: str, now_ms: int) -> Wire:
    """End a lease that has run out: the batch can never commit. A renewal in between makes it fail."""
    return update(
        header_key(vault, batch_id),
        "SET #state = :expired",
        "#state = :leased AND #expires <= :now",
        expired=State.EXPIRED.value,
        leased=State.LEASED.value,
        now=now_ms,
    )


def end(vault: VaultRef, batch: Batch, state: State) -> Wire:
    """End a lease that is still the one that was read."""
    return update(
        header_key(vault, batch.id),
        "SET #state = :to",
        "#state = :leased AND #expires = :seen",
        to=state.value,
        leased=State.LEASED.value,
        seen=batch.expires_ms,
    )


class LeaseVerbs(RowVerbs):
    """Reading headers, giving leases back, renewing them."""

    def batch(self, vault: VaultRef, batch_id: str) -> Batch | None:
        return self.batches(vault, [batch_id]).get(batch_id)

    def batches(self, vault: VaultRef, batch_ids: Sequence[str]) -> dict[str, Batch]:
        items = self._table.get_all([header_key(vault, name) for name in batch_ids if PART_MARK not in name])
        return {batch.id: batch for batch in map(to_batch, items.values())}

    def _header(self, vault: VaultRef, batch_id: str) -> Item:
        """Raises `NotFound`, or `StaleEpoch` when everything is gone."""
        items = self._table.get_all([header_key(vault, batch_id), counters_key(vault)])
        check_readable(items.get("D"))
        header = items.get(f"B#{batch_id}")
        if header is None or PART_MARK in batch_id:
            raise refusals.unknown_batch()
        return header

    def _listed(self, vault: VaultRef, batch_id: str) -> list[str]:
        """The sources of a batch in order."""
        item = self._table.get(list_key(vault, batch_id))
        if item is None:
            # Whoever removed the list removed the header with it, unless the table is damaged.
            self._header(vault, batch_id)
            raise lost("the source list of a batch")
        return unpack_ids(item["ids"])

    def _live(self, vault: VaultRef, ids: Sequence[str]) -> set[str]:
        """Those of the rows that exist and are not consolidated."""
        return {name for name, item in self.read_rows(vault, ids, LIVE).items() if "by" not in item}

    def release(self, vault: VaultRef, batch_id: str, now_ms: int) -> Released:
        for _ in self._table.rounds():
            batch = to_batch(self._header(vault, batch_id))
            if batch.state in COMMITTED:
                raise refusals.no_lease_to_give_back()
            if batch.state is State.REOPENED:
                raise refuse_commit(batch)
            if batch.state is not State.LEASED:
                return Released(batch.state, 0, self.debt(vault))
            expired = batch.expires_ms <= now_ms
            returned = 0 if expired else len(self._live(vault, self._listed(vault, batch_id)))
            state = State.EXPIRED if expired else State.RELEASED
            if self._end(vault, batch, state):
                return Released(state, returned, self.debt(vault))
        raise AssertionError("rounds end by raising")

    def _end(self, vault: VaultRef, batch: Batch, state: State) -> bool:
        """Move a leased batch to `state` and take it off the ledger; False when it changed meanwhile."""
        try:
            self._table.transact([end(vault, batch, state), leave(vault, batch.tier, [batch.id])])
        except ConditionFailed:
            return False
        return True

    def renew(self, vault: VaultRef, batch_id: str, now_ms: int) -> Renewed:
        for _ in self._table.rounds():
            batch = to_batch(self._header(vault, batch_id))
            if is_renewal_replay(batch, now_ms):
                return Renewed(batch.expires_ms, self.debt(vault))
            refusal = refuse_renewal(batch, now_ms)
            if refusal is not None:
                raise refusal
            expires = now_ms + batch.lease_ms
            header = update(
                header_key(vault, batch_id),
                "SET #expires = :expires, #renewed = :now",
                "#state = :leased AND #expires = :seen AND attribute_not_exists(#renewed)",
                expires=expires,
                now=now_ms,
                leased=State.LEASED.value,
                seen=batch.expires_ms,
            )
            names = {"#batch": batch_id}
            listed = "attribute_exists(#open.#batch)"
            ledger = update(
                ledger_key(vault, batch.tier), "SET #open.#batch.#x = :expires", listed, names, expires=expires
            )
            try:
                self._table.transact([header, ledger])
            except ConditionFailed:
                continue
            return Renewed(expires, self.debt(vault))
        raise AssertionError("rounds end by raising")
