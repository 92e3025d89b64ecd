"""Metering: one item per key, day and operation, in a few slices that keep concurrent requests apart.

Nothing is counted twice. A count whose answer was lost may be missing: a transaction would save it, and cost twice as
much every time.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence

from shared.adapters.dynamodb.table import Table
from shared.adapters.dynamodb.values import update
from shared.domain.errors import StrataError
from shared.ports.usage import UsageRow

SLICES = 8
KEPT_S = 3_600
"""How long the count of a minute stays after its beginning."""
log = logging.getLogger("strata.dynamodb")


class DynamoUsage:
    """`shared.ports.usage.UsageMeter`. Items ``U#<key id>`` / ``<day>#<operation>#<slice>`` hold sums, and
    ``calls#<minute>`` a count, for an hour.
    """

    def __init__(self, table: Table, draw: Callable[[], float] = random.random) -> None:
        """`draw` picks slices: numbers in 0..1."""
        self._table = table
        self._draw = draw

    def record(self, key_id: str, day: str, operation: str, tokens: int, requests: int) -> None:
        sort = f"{day}#{operation}#{int(self._draw() * SLICES)}"
        change = update(
            (f"U#{key_id}", sort), "ADD #requests :requests, #tokens :tokens", requests=requests, tokens=tokens
        )
        try:
            self._table.add(change)
        except StrataError as error:
            log.warning("usage was not recorded: %s", error.code)

    def call(self, key_id: str, minute: int) -> int:
        change = update(
            (f"U#{key_id}", f"calls#{minute}"),
            "ADD #calls :one SET #ttl = :ttl",
            one=1,
            ttl=minute * 60 + KEPT_S,
        )
        try:
            return int(self._table.add(change, returned=True).get("calls", 0))
        except StrataError as error:
            log.warning("a call was not counted: %s", error.code)
            return 0

    def read(self, key_id: str, first_day: str, last_day: str) -> Sequence[UsageRow]:
        if first_day > last_day:
            return []
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        for item in self._table.query(f"U#{key_id}", low=first_day, high=f"{last_day}$"):
            day, operation, _ = item["sk"].split("#")
            requests, tokens = sums.get((day, operation), (0, 0))
            sums[day, operation] = requests + item["requests"], tokens + item["tokens"]
        return [UsageRow(*name, *sums[name]) for name in sorted(sums)]
