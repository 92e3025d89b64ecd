"""What a run says: a line for each batch, the same lines in a log file, and a bar where somebody watches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TextIO

from shared.domain.times import to_text

WIDTH = 24
CLEAR = "\r\033[K"


class Report:
    """Neither memories nor keys are ever given to it. The bar is drawn on `err`, if that is a terminal.

    A place that cannot be written, as on a full disk, is left out from then on; `err` says so once, and nothing is
    raised. A stream is None in a process that was started without it.
    """

    def __init__(self, out: TextIO | None, err: TextIO | None, log: TextIO | None = None) -> None:
        self._out = out
        self._err = err
        self._log = log
        self._lost: list[TextIO] = []

    def line(self, text: str, logged: bool = True) -> None:
        self._say(text, self._out, "standard output", logged)

    def failure(self, text: str) -> None:
        self._say(text, self._err, "standard error", True)

    def _say(self, text: str, to: TextIO | None, name: str, logged: bool) -> None:
        if self._watched():
            self._write(CLEAR, self._err, "standard error")
        self._write(f"{text}\n", to, name)
        if logged:
            self._write(f"{to_text(time.time_ns() // 1_000_000)} {text}\n", self._log, "--log")

    def progress(self, done: int, left: int, doing: str) -> None:
        """`done` and `left` are tokens."""
        if not self._watched():
            return
        share = done / max(1, done + left)
        full = int(share * WIDTH)
        bar = f"{CLEAR}[{'#' * full}{'.' * (WIDTH - full)}] {share:4.0%}  {left:,} tokens left  {doing}"
        self._write(bar, self._err, "standard error")

    def _watched(self) -> bool:
        return self._err is not None and self._err.isatty()

    def _write(self, text: str, to: TextIO | None, name: str) -> None:
        if to is None or to in self._lost:
            return
        try:
            to.write(text)
            to.flush()
        except OSError as error:
            self._lost.append(to)
            _drain(to)
            self._write(f"{name} cannot be written ({error.strerror}); the run goes on without it\n", self._err, "")


def _drain(stream: TextIO) -> None:
    """Let what is left in the stream's buffer go nowhere, so that closing it does not fail as well."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def seconds_since(began: float, clock: Callable[[], float] = time.monotonic) -> str:
    return f"{clock() - began:.1f} s"
