"""While an import is open, nothing else writes to the vault."""

from __future__ import annotations

from shared.domain.errors import Conflict
from shared.usecases.services import Caller


def refuse_while_importing(caller: Caller) -> None:
    """Raises `Conflict` ``import_open``."""
    if caller.record.importing is not None:
        raise Conflict(
            "An import into this vault is open; it takes no other writes.",
            code="import_open",
            hint="Finish the import with ?finish=true, or throw it away with DELETE /v1/memory.",
        )
