"""The node that the OpenSearch tests of one process share: a running one by name, else one of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NoReturn
from uuid import uuid4

import pytest

from infra.local.opensearch_home import INSTALL, missing_tools
from infra.local.opensearch_node import running

PREFIX = f"test-{uuid4().hex[:12]}"
"""Of all indexes of this process, so that several can use one node."""


@pytest.fixture(scope="session")
def opensearch_url() -> Iterator[str]:
    """``STRATA_TEST_OPENSEARCH_URL`` where it is set, else a node that is started for the tests."""
    named = os.environ.get("TEST_OPENSEARCH_URL")
    if named:
        yield named.rstrip("/")
        return
    if missing := missing_tools():
        leave_out(missing)
    with running() as url:
        yield url


def leave_out(missing: Sequence[str]) -> NoReturn:
    """Leave the test out and say what to install; on a build machine, where ``CI`` is set, fail it."""
    why = f"no OpenSearch node: {' and '.join(missing)} not found; {INSTALL}, or set STRATA_TEST_OPENSEARCH_URL"
    if os.environ.get("CI"):
        pytest.fail(why, pytrace=False)
    raise pytest.skip.Exception(why, _use_item_location=True)
