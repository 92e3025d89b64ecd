"""Keeping the search index up with the store. Words are indexed before a search answers, vectors when time allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.domain.memory import VaultRef
from shared.ports.store import Change
from shared.usecases.services import Services

if TYPE_CHECKING:
    from shared.ports.embedder import Embedder

CHANGES_AT_ONCE = 500


def index_changes(services: Services, vault: VaultRef, changes: Sequence[Change], vectors: int) -> None:
    """Bring rows that changed into the index by their words, then up to `vectors` passages by their meaning."""
    update_words(services, vault, list(dict.fromkeys(change.memory_id for change in changes)))
    if vectors > 0:
        fill_vectors(services, vault, vectors)


def update_words(services: Services, vault: VaultRef, ids: Sequence[str]) -> None:
    """Have the index hold the words of those rows that exist, and nothing of the others."""
    if not ids:
        return
    rows = services.store.get(vault, ids)
    gone = [memory_id for memory_id in ids if memory_id not in rows]
    if gone:
        services.index.remove(vault, gone)
    if rows:
        # The index passes over a row that is deleted between the two steps.
        services.index.put_words(vault, [rows[memory_id] for memory_id in ids if memory_id in rows])


def fill_vectors(services: Services, vault: VaultRef, limit: int) -> int:
    """Give up to `limit` waiting passages their vectors; returns how many. 0 when the model is not loaded."""
    embedder = _embedder_of(services, vault)
    if embedder is None or not embedder.ready():
        return 0
    passages = services.index.without_vectors(vault, limit)
    if passages:
        vectors = embedder.embed_documents([passage.text for passage in passages])
        services.index.put_vectors(vault, passages, vectors)
    return len(passages)


def load_model(services: Services, vault: VaultRef) -> None:
    """Have the vault's model ready to embed, however long that takes. Raises `Unavailable`."""
    embedder = _embedder_of(services, vault)
    if embedder is not None:
        embedder.load()


def _embedder_of(services: Services, vault: VaultRef) -> Embedder | None:
    model = services.directory.vault(vault.vault_id).model
    return services.embedders.get(model or services.policy.default_model)


def catch_up(services: Services, vault: VaultRef) -> None:
    """Index the words of everything that was written before this call."""
    more = True
    while more:
        changes = services.feed.pending(vault, CHANGES_AT_ONCE)
        if changes:
            index_changes(services, vault, changes, 0)
            services.feed.acknowledge(vault, changes)
        # A short page holds all there was; what others write meanwhile is theirs to wait for.
        more = len(changes) == CHANGES_AT_ONCE
