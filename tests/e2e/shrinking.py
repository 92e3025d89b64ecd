"""A process that shrinks a vault's file by small steps while it writes to it, and says what it wrote.

``python -m tests.e2e.shrinking FOLDER VAULT FIRST`` runs until it is killed or nothing is left to do; each line is the
id of a row that was acknowledged.
"""

from __future__ import annotations

import sys
from pathlib import Path

from shared.adapters.sqlite import upkeep
from shared.bootstrap.embedded import Embedded
from shared.domain.memory import VaultRef
from shared.settings import Settings
from tests.contract.rows import NOW, Maker

PAGES_AT_ONCE = 8


def main(folder: str, vault_id: str, first: str) -> None:
    upkeep.PAGES_AT_ONCE, upkeep.REWRITTEN_PAGES = PAGES_AT_ONCE, 0
    make = Maker(int(first))
    with Embedded(Settings(data=Path(folder), embedder="hashed-64")) as backend:
        backend.upkeep._quiet_s = 0.0
        vault = VaultRef(vault_id, 1)
        while backend.upkeep.step():
            (row,) = make.raws(1)
            backend.services.store.append(vault, [row], None, NOW)
            print(row.id, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
