"""What a run says: a line for each batch, the same lines in a log file, and a bar where somebody watches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from shared.domain.times import to_text

WIDTH = 24
CLEAR = "\r\033[K"


class Report:
    """Neither memories nor keys are ever given to it. The bar is drawn on `err`, if that is a terminal."""

    def __init__(self, out: TextIO, err: TextIO, log: TextIO | None = None) -> None:
        self._out = out
        self._err = err
        self._log = log

    def line(self, text: str, logged: bool = True) -> None:
        self._say(text, self._out, logged)

    def failure(self, text: str) -> None:
        self._say(text, self._err, True)

    def _say(self, text: str, to: TextIO, logged: bool) -> None:
        if self._err.isatty():
            self._err.write(CLEAR)
            self._err.flush()
        print(text, file=to, flush=True)
        if logged and self._log is not None:
            print(to_text(time.time_ns() // 1_000_000), text, file=self._log, flush=True)

    def progress(self, done: int, left: int, doing: str) -> None:
        """`done` and `left` are tokens."""
        if not self._err.isatty():
            return
        share = done / max(1, done + left)
        full = int(share * WIDTH)
        self._err.write(f"{CLEAR}[{'#' * full}{'.' * (WIDTH - full)}] {share:4.0%}  {left:,} tokens left  {doing}")
        self._err.flush()


def seconds_since(began: float, clock: Callable[[], float] = time.monotonic) -> str:
    return f"{clock() - began:.1f} s"
