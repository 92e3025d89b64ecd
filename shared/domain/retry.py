"""Trying a dependency again: when it helps, how long to wait, when to stop. Clock and chance come from outside."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Answer = TypeVar("Answer")

LONGEST_ASKED_S = 3600.0


class Again(Exception):
    """A call failed in a way that another try may mend. `asked_s` is the wait that the dependency asked for, if any."""

    def __init__(self, reason: str, asked_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.asked_s = asked_s


@dataclass(frozen=True, slots=True)
class Patience:
    """Waits that double from `first_s` to `longest_s`, each shortened by chance by up to a half.

    `clock` counts seconds and never goes back; `draw` gives numbers in 0..1.
    """

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    draw: Callable[[], float]
    first_s: float = 0.2
    longest_s: float = 5.0
    tries: int = 6

    def insist(self, call: Callable[[float], Answer], until: float) -> Answer:
        """The answer of `call`, which is given the seconds that are left until the moment `until`.

        Raises the last `Again` after `tries` calls, or as soon as the next wait would not end before `until`.
        """
        failures = 0
        while True:
            try:
                return call(until - self.clock())
            except Again as again:
                failures += 1
                wait = max(self._pause(failures), again.asked_s or 0.0)
                if failures >= self.tries or self.clock() + wait >= until:
                    raise
            self.sleep(wait)

    def _pause(self, failures: int) -> float:
        return min(self.longest_s, self.first_s * 2.0 ** (failures - 1)) * (1 - self.draw() / 2)


def asked_wait(retry_after: str | None) -> float | None:
    """The seconds of a ``Retry-After`` header, at most an hour; None for a date, nonsense or no header."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return min(seconds, LONGEST_ASKED_S) if math.isfinite(seconds) and seconds >= 0 else None
