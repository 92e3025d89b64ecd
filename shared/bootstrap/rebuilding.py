"""New search indexes beside those in use, filled from the table, that then take over."""

from __future__ import annotations

from dataclasses import replace

from shared.adapters.opensearch import mapping
from shared.adapters.opensearch.index import OpenSearchIndex
from shared.adapters.opensearch.maintain import behind, build_beside, drop, switch
from shared.bootstrap.aws import Aws
from shared.usecases.services import Services

BUILDING = "-building"


class Beside:
    """Fill through `services`, then `take_over`, then look for what changed meanwhile, then `drop_replaced`.

    While it is built, a new index has an alias of its own, by which a later run finds and finishes it. Deletions of
    vaults reach it all the while; other changes do not.
    """

    def __init__(self, backend: Aws, replicas: int = 0) -> None:
        self._backend, self._replicas = backend, replicas
        self._transport = backend.transport()
        self._index = OpenSearchIndex(
            self._transport, backend.store, backend.model, backend.clock.now_ms, False, backend.indexes + BUILDING
        )
        self.services: Services = replace(backend.services, index=self._index)
        self._built = {alias: self._begin(alias, model, size) for alias, model, size in self._aliases()}
        self._replaced: list[str] = []

    def _aliases(self) -> list[tuple[str, str, int]]:
        return [
            (mapping.alias(model, dimension, self._backend.indexes), model, dimension)
            for model, dimension in self._backend.models()
        ]

    def _begin(self, alias: str, model: str, dimension: int) -> str:
        temporary = mapping.alias(model, dimension, self._backend.indexes + BUILDING)
        begun = behind(self._transport, temporary)
        if begun is not None:
            return begun
        made = build_beside(self._transport, model, dimension, self._backend.indexes, replicas=self._replicas)
        switch(self._transport, temporary, made)
        return made

    def take_over(self) -> list[str]:
        """Let everybody use the new indexes from now on; returns their names."""
        for alias, model, dimension in self._aliases():
            built = self._built[alias]
            old = switch(self._transport, alias, built)
            if old is not None:
                self._replaced.append(old)
            temporary = mapping.alias(model, dimension, self._backend.indexes + BUILDING)
            actions = [{"remove": {"index": built, "alias": temporary}}]
            self._transport.request("POST", "/_aliases", {"actions": actions})
        return list(self._built.values())

    def drop_replaced(self) -> list[str]:
        """Remove the indexes that nobody uses any more; returns their names."""
        for name in self._replaced:
            drop(self._transport, name)
        return self._replaced

    def close(self) -> None:
        self._index.close()
