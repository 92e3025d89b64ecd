"""New search indexes beside those in use, filled from the table, that then take over."""

from __future__ import annotations

from dataclasses import replace

from shared.adapters.opensearch import mapping
from shared.adapters.opensearch.index import OpenSearchIndex
from shared.adapters.opensearch.maintain import behind, build_beside, drop, switch
from shared.bootstrap.aws import Aws
from shared.usecases.services import Services


class Beside:
    """Fill through `services`, then `take_over`, then look for what changed meanwhile, then `drop_replaced`.

    While it is built, a new index has an alias of its own, by which a later run, or one at the same time, finds it and
    goes on with it. Deletions of vaults reach it all the while; other changes do not.
    """

    def __init__(self, backend: Aws, replicas: int = 0) -> None:
        self._transport = backend.transport()
        self._index = OpenSearchIndex(
            self._transport,
            backend.store,
            backend.model,
            backend.clock.now_ms,
            False,
            backend.indexes,
            backend.layout,
            building=True,
        )
        self.services: Services = replace(backend.services, index=self._index)
        self._built = {
            mapping.alias(model, dimension, backend.indexes, backend.layout): build_beside(
                self._transport, model, dimension, backend.indexes, replicas=replicas, version=backend.layout
            )
            for model, dimension in backend.models()
        }
        self._replaced: dict[str, str] = {}

    def overtaken(self) -> bool:
        """Whether another run finished one of these indexes, so that it is being built no longer."""
        return not all(self._is_built(alias) for alias in self._built)

    def take_over(self) -> list[str]:
        """Let everybody whose layout this is use the new indexes from now on; returns their names.

        Passes over those that another run finished.
        """
        mine = [alias for alias in self._built if self._is_built(alias)]
        for alias in mine:
            old = switch(self._transport, alias, self._built[alias])
            if old is not None:
                self._replaced[alias] = old
        return [self._built[alias] for alias in mine]

    def _is_built(self, alias: str) -> bool:
        return behind(self._transport, mapping.building(alias)) == self._built[alias]

    def drop_replaced(self) -> list[str]:
        """Remove the indexes that nobody uses any more; returns their names."""
        unused = [name for alias, name in self._replaced.items() if behind(self._transport, alias) != name]
        for name in unused:
            drop(self._transport, name)
        return unused

    def close(self) -> None:
        self._index.close()
