"""Search indexes of a deployment, made ready before its functions are changed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from shared.bootstrap.aws import Aws
from shared.bootstrap.provisioning import prepare_indexes
from shared.domain.errors import Unavailable
from shared.settings import load

PATIENCE_S = 120.0
"""How long a domain may take to answer after CloudFormation calls it complete."""
PAUSE_S = 5.0


def provisioned(replicas: int) -> Sequence[str]:
    """The names of the indexes of every model on offer, made where that hides no row.

    Raises `RebuildFirst` (see `prepare_indexes`) where it would, `Unavailable` when the search store does not answer
    for two minutes.
    """
    deadline = time.monotonic() + PATIENCE_S
    with Aws(load()) as aws:
        while True:
            try:
                return prepare_indexes(aws, replicas)
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)
