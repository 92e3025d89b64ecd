"""The local gateway on a table of an emulator that runs already: ``python -m tests.e2e.dynamodb_gateway``.

Its search store need not be there: consolidation does without.
"""

from __future__ import annotations

import sys

from infra.local.server import run, serve
from shared import bootstrap
from shared.settings import Settings


def _start(settings: Settings) -> None:
    with bootstrap.Aws(settings, follow=True) as backend:
        serve(backend, settings, f"table: {settings.table}", backend.others)


if __name__ == "__main__":
    sys.exit(run(_start))
