"""The suite of the edge, over HTTP against the deployed API."""

import pytest

from tests.api.test_carriers import *  # noqa: F403

pytestmark = pytest.mark.xdist_group("deployed")

# It names a packaged model, and none is part of a deployment.
del test_another_model_on_a_vault_with_rows_is_a_conflict  # noqa: F821
