"""The AWS back end for tests of the edge: tables on one ministack, indexes on one OpenSearch node, one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from shared import bootstrap
from shared.bootstrap.provisioning import create_table
from shared.settings import AWS, Settings
from tests.emulator.ministack import Ministack
from tests.opensearch.node import PREFIX

EMBEDDED_ONLY = pytest.mark.parametrize("backend", ["embedded"], indirect=True)
"""For tests of SQLite's files, and for crowds that an emulator needs minutes for: those have suites of their own."""

_numbers = count(1)


class Emulated:
    """Both services, with search indexes for every model. Each back end gets a table of its own."""

    def __init__(self, stack: Ministack, search_url: str) -> None:
        self._stack, self._search_url = stack, search_url
        self._clients: dict[str, Any] = {}
        self._indexes = f"{PREFIX}-api"
        with self._open(self.settings()) as first:
            first.create_indexes()

    def _connect(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._stack.client(service)
        return self._clients[service]

    def settings(self) -> Settings:
        return Settings(embedder="hashed-64", backend=AWS, table=f"api-{next(_numbers)}", search_url=self._search_url)

    @contextmanager
    def backend(self, settings: Settings | None = None, follow: bool = True) -> Iterator[bootstrap.Aws]:
        """Without `follow` the stream is delivered to nobody, as on AWS with the indexer stopped."""
        chosen = settings or self.settings()
        create_table(self._connect("dynamodb"), chosen.table or "")
        with self._open(chosen, follow) as backend:
            yield backend

    def _open(self, settings: Settings, follow: bool = True) -> bootstrap.Aws:
        return bootstrap.Aws(settings, connect=self._connect, follow=follow, indexes=self._indexes)
