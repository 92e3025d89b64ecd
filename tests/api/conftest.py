"""The real embedded services in a folder of their own, behind the real gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.gateway import Gateway
from infra.local.worker import Worker
from shared import bootstrap
from shared.settings import Settings
from tests.api.client import Client


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[bootstrap.Embedded]:
    settings = Settings(data=tmp_path / "data", embedder="hashed-64", index_memory_mb=64)
    with bootstrap.Embedded(settings) as backend:
        bootstrap.activate(backend)
        yield backend
        bootstrap.activate(None)


@pytest.fixture
def worker(backend: bootstrap.Embedded) -> Worker:
    return Worker(backend.services)


@pytest.fixture
def gateway(backend: bootstrap.Embedded, worker: Worker) -> Gateway:
    return Gateway(backend.services, worker)


@pytest.fixture
def client(gateway: Gateway, backend: bootstrap.Embedded) -> Client:
    return Client(gateway, backend.services)
