"""Recording what a request used, under its key and the day of the server's clock."""

from __future__ import annotations

from shared.domain.times import to_text
from shared.usecases.services import Caller, Services


def today(services: Services) -> str:
    """``YYYY-MM-DD``, UTC."""
    return to_text(services.clock.now_ms())[:10]


def record(services: Services, caller: Caller, operation: str, tokens: int) -> None:
    services.usage.record(caller.key.key_id, today(services), operation, tokens, 1)
