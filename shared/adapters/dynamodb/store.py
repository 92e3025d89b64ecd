"""The memory store on DynamoDB."""

from __future__ import annotations

from shared.adapters.dynamodb.checkout import CheckoutVerbs
from shared.adapters.dynamodb.purging import PurgeVerbs
from shared.adapters.dynamodb.reads import ReadVerbs
from shared.adapters.dynamodb.restoring import RestoreVerbs
from shared.domain.memory import VaultRef


class DynamoStore(CheckoutVerbs, ReadVerbs, RestoreVerbs, PurgeVerbs):
    """`shared.ports.store.MemoryStore` and `shared.ports.search.RowSource`.

    Every verb has one commit point, a transaction. What does not fit into it follows in steps that anybody can go on
    with: the next call that meets it, or the change stream.
    """

    def finish(self, vault: VaultRef, attempt: str) -> None:
        self._staging.finish(vault, attempt)
        self._noted(vault)
