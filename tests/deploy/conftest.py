"""One deployment for all tests of the deployed API, made when the first one asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local import account
from infra.local.account import Account
from shared import bootstrap
from tests.api.client import Client
from tests.deploy.http_gateway import HttpGateway


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A copy of a test that is for the embedded back end only is none of ours."""
    items[:] = [item for item in items if Path(__file__).parent not in item.path.parents or not _embedded(item)]


def _embedded(item: pytest.Item) -> bool:
    parameters = getattr(item, "callspec", None)
    return parameters is not None and parameters.params.get("backend") == "embedded"


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """Both stacks in an emulated account, with a light model."""
    with account.running("hashed-64") as emulated:
        app = emulated.synthesise(tmp_path_factory.mktemp("cdk") / "out")
        emulated.bootstrap(app)
        emulated.deploy(app)
        yield emulated


@pytest.fixture(scope="session")
def backend(deployed: Account) -> Iterator[bootstrap.Aws]:
    """The same table and search store, seen by the test itself."""
    with bootstrap.Aws(deployed.settings()) as aws:
        yield aws


@pytest.fixture
def client(deployed: Account, backend: bootstrap.Aws) -> Client:
    return Client(HttpGateway(deployed.url), backend.services)
