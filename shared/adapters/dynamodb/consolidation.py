"""Commit by one flip, reopen by another, and whoever comes later finishes either of them.

A flip makes it final: from then on the reflections of a commit are certain to appear and its sources to be marked, or
those of a reopened batch certain to go and its sources to come back.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.adapters.dynamodb.layout import created_json, header_key, list_key, pack_rows, to_batch
from shared.adapters.dynamodb.leases import COMMITTED
from shared.adapters.dynamodb.settling import SettleVerbs
from shared.adapters.dynamodb.staging import stage
from shared.adapters.dynamodb.table import ConditionFailed
from shared.adapters.dynamodb.undoing import UndoVerbs
from shared.adapters.dynamodb.values import update
from shared.domain.batch import Batch, Created, Entry, State, lease_expired, refuse_commit, sources_deleted
from shared.domain.lineage import reflections_of
from shared.domain.memory import VaultRef
from shared.domain.refusals import never_committed
from shared.ports.store import Committed, Reopened


class ConsolidationVerbs(SettleVerbs, UndoVerbs):
    """`commit` and `reopen` of the store, and `heal`."""

    def commit(self, vault: VaultRef, batch_id: str, entries: Sequence[Entry], now_ms: int) -> Committed:
        for _ in self._table.rounds():
            header = self._header(vault, batch_id)
            batch = to_batch(header)
            if batch.state in COMMITTED:
                self.heal(vault, batch_id)
                return self._answer(vault, batch, batch.created, batch.sources_consolidated, replayed=True)
            if batch.state is not State.LEASED:
                raise refuse_commit(batch)
            sources = self._listed(vault, batch_id) if batch.expires_ms > now_ms else []
            live = self._live(vault, sources)
            if not live:
                if self._end(vault, batch, State.EXPIRED):
                    raise lease_expired() if batch.expires_ms <= now_ms else sources_deleted()
                continue
            if self._flip(vault, batch, entries, len(live), now_ms):
                self.heal(vault, batch_id, sources)
                created = tuple(Created(entry.id, entry.importance) for entry in entries)
                return self._answer(vault, batch, created, len(live), replayed=False)
        raise AssertionError("rounds end by raising")

    def _flip(self, vault: VaultRef, batch: Batch, entries: Sequence[Entry], live: int, now_ms: int) -> bool:
        """The commit point; False when the lease is not what it was."""
        attempt = entries[0].id
        parts = pack_rows(reflections_of(batch, entries, now_ms))
        header = update(
            header_key(vault, batch.id),
            "SET #state = :committed, #committed = :now, #created = :created, #consolidated = :live,"
            " #attempt = :attempt, #parts = :parts, #through = :zero REMOVE #ttl",
            "#state = :leased AND #expires = :seen",
            committed=State.COMMITTED.value,
            now=now_ms,
            created=created_json(Created(entry.id, entry.importance) for entry in entries),
            live=live,
            attempt=attempt,
            parts=len(parts),
            zero=0,
            leased=State.LEASED.value,
            seen=batch.expires_ms,
        )
        kept = update(list_key(vault, batch.id), "REMOVE #ttl", "attribute_exists(#pk)")
        try:
            self._table.transact([header, kept, *stage(vault, attempt, parts)])
        except ConditionFailed:
            return False
        return True

    def _answer(
        self, vault: VaultRef, batch: Batch, created: tuple[Created, ...], consolidated: int, *, replayed: bool
    ) -> Committed:
        return Committed(batch.id, batch.tier + 1, created, consolidated, replayed, self.debt(vault))

    def reopen(self, vault: VaultRef, batch_id: str, now_ms: int) -> Reopened:
        for _ in self._table.rounds():
            header = self._header(vault, batch_id)
            batch = to_batch(header)
            if batch.state is State.REOPENED and "undoing" not in header:
                return Reopened(header["removed"], header["returned"], self.debt(vault))
            if batch.state in (State.COMMITTED, State.REOPENED):
                self.heal(vault, batch_id)
                continue
            if batch.state is not State.SETTLED:
                raise never_committed()
            if self._flip_back(vault, batch, now_ms):
                self.heal(vault, batch_id)
        raise AssertionError("rounds end by raising")

    def heal(self, vault: VaultRef, batch_id: str, sources: Sequence[str] | None = None) -> None:
        """Finish settling, or undoing, a batch on which somebody began it; any other is left alone.

        `sources` are the batch's, if the caller has read them. Raises `StaleEpoch`.
        """
        for _ in self._table.rounds():
            header = self._table.get(header_key(vault, batch_id))
            if header is None or not (header["state"] == State.COMMITTED.value or "undoing" in header):
                return
            sources = self._listed(vault, batch_id) if sources is None else sources
            done = self._undo(vault, header, sources) if "undoing" in header else self._settle(vault, header, sources)
            if done:
                return
