"""The suite of the edge, over HTTP against the deployed API."""

import pytest

from tests.api.test_sizes import *  # noqa: F403

pytestmark = pytest.mark.xdist_group("deployed")
