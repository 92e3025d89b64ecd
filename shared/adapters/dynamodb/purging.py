"""Removing what dropped contents left in the table."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice

from shared.adapters.dynamodb.counters import DROPPED
from shared.adapters.dynamodb.directory import FIRST_EPOCH, vault_key
from shared.adapters.dynamodb.layout import counters_key, partition
from shared.adapters.dynamodb.rows import RowVerbs
from shared.adapters.dynamodb.table import ConditionFailed, Table
from shared.adapters.dynamodb.values import update
from shared.domain.errors import Unavailable
from shared.domain.memory import VaultRef

LOOKED_AT_AGAIN = 3
"""Epochs of an earlier purge that the next one looks at once more, for what a late writer of them left."""
LISTED_AT_ONCE = 500
PURGE_SECONDS = 10.0
"""How long one call goes on, so that whoever empties a large vault has an answer in time."""


class PurgeVerbs(RowVerbs):
    """`purge` of the store."""

    def __init__(
        self,
        table: Table,
        noted: Callable[[VaultRef], None],
        purged: Callable[[str, int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`noted` is told of contents whose rows changed, `purged` (vault id, first epoch kept) of finished purges."""
        super().__init__(table, noted)
        self._purged = purged
        self._clock = clock

    def purge(self, vault_id: str, below_epoch: int) -> None:
        """Raises `Unavailable` when there is more to remove than one call can; the next one goes on.

        Its `extra` then says whether the stream will ask for that by itself.
        """
        record = self._table.get(vault_key(vault_id)) or {}
        done = min(record.get("purged", FIRST_EPOCH), below_epoch)
        epochs = range(max(FIRST_EPOCH, done - LOOKED_AT_AGAIN), below_epoch)
        # All of them are closed before the first is emptied: nobody reads a content that is half gone.
        for epoch in epochs:
            dropped = counters_key(VaultRef(vault_id, epoch))
            self._table.write(update(dropped, "SET #sealed = :dropped", dropped=DROPPED))
        end = self._clock() + PURGE_SECONDS
        for epoch in epochs:
            while self._emptied(VaultRef(vault_id, epoch), end):
                pass
        self._purged(vault_id, below_epoch)

    def _emptied(self, vault: VaultRef, end: float) -> bool:
        """Remove all that a listing shows but the counters; False when it showed nothing."""
        pk, counters = counters_key(vault)
        listed = (
            item["sk"]
            for item in self._table.query(partition(vault), limit=LISTED_AT_ONCE, attributes=("sk",))
            if item["sk"] != counters
        )
        found = False
        while page := list(islice(listed, LISTED_AT_ONCE)):
            self._table.delete_all([(pk, sort) for sort in page])
            found = True
            if self._clock() > end:
                raise Unavailable(
                    "What the vault held before is not all removed from the table yet.",
                    code="storage_unavailable",
                    hint="Nobody can read it any more; removing it goes on.",
                    retry_after=1,
                    extra={"goes_on": self._reminded(vault.vault_id)},
                )
        return found

    def _reminded(self, vault_id: str) -> bool:
        """Have the stream say once more that there is something to purge: a large vault holds up nobody else's news."""
        try:
            self._table.write(update(vault_key(vault_id), "ADD #turns :one", "attribute_exists(#purge)", one=1))
        except ConditionFailed:
            return False
        return True
