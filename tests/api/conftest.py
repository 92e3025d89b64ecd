"""The real services of each back end, new for every test, behind the real gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local.gateway import Gateway
from infra.local.worker import Worker
from shared import bootstrap
from shared.settings import Settings
from tests.api.backends import Emulated
from tests.api.client import Client
from tests.emulator.ministack import Ministack


@pytest.fixture(scope="session")
def emulated(ministack: Ministack, opensearch_url: str) -> Emulated:
    return Emulated(ministack, opensearch_url)


@pytest.fixture(params=["embedded", pytest.param("aws", marks=[pytest.mark.slow, pytest.mark.loopback])])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[bootstrap.Embedded | bootstrap.Aws]:
    if request.param == "embedded":
        settings = Settings(data=tmp_path / "data", embedder="hashed-64", index_memory_mb=64)
        with bootstrap.Embedded(settings) as embedded:
            bootstrap.activate(embedded)
            yield embedded
    else:
        emulated: Emulated = request.getfixturevalue("emulated")
        with emulated.backend() as aws:
            bootstrap.activate(aws)
            yield aws
    bootstrap.activate(None)


@pytest.fixture
def worker(backend: bootstrap.Backend) -> Worker:
    return Worker(backend.services)


@pytest.fixture
def gateway(backend: bootstrap.Backend, worker: Worker) -> Gateway:
    return Gateway(backend.services, worker)


@pytest.fixture
def client(gateway: Gateway, backend: bootstrap.Backend) -> Client:
    return Client(gateway, backend.services)
