"""The suite of the edge, over HTTP against the deployed API."""

import pytest

from tests.api.test_behaviour_text import *  # noqa: F403

pytestmark = pytest.mark.xdist_group("deployed")

# It looks for 12 MB in the moment they are stored; a deployed index follows.
del test_large_rows_page_to_the_end_everywhere  # noqa: F821
