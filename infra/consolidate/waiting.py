"""Waiting that SIGINT and SIGTERM end. Nothing else is interrupted: a request that was sent gets its answer first."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Generic, TypeVar

Result = TypeVar("Result")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """The signal of this number asked the run to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _Call(Generic[Result]):
    """A function in a thread of its own. One that nobody waits for any more does not keep the process from ending."""

    def __init__(self, function: Callable[[], Result], inbox: SimpleQueue[None]) -> None:
        self._function = function
        self._inbox = inbox
        self._results: list[Result] = []
        self._error: Exception | None = None
        self.done = False
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._results.append(self._function())
        except Exception as error:
            self._error = error
        self.done = True
        self._inbox.put(None)

    def result(self) -> Result:
        if self._error is not None:
            raise self._error
        return self._results[0]


class Waiting:
    """Listens to the signals between ``with`` and its end. A second signal ends the process as if nobody listened."""

    def __init__(self) -> None:
        # Wakes whoever waits and says nothing more. Its `put` may interrupt its own `get`, as a signal's handler does.
        self._inbox: SimpleQueue[None] = SimpleQueue()
        self._number: int | None = None

    def __enter__(self) -> Waiting:
        self._before = {number: signal.signal(number, self._stop) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._number = number
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        self._inbox.put(None)

    def check(self) -> None:
        """Raises `Stopped` when a signal has come."""
        if self._number is not None:
            raise Stopped(self._number)

    def sleep(self, seconds: float) -> None:
        """Raises `Stopped`."""
        until = time.monotonic() + seconds
        while True:
            self.check()
            left = until - time.monotonic()
            if left <= 0:
                return
            with suppress(Empty):
                self._inbox.get(timeout=left)

    def result(self, function: Callable[[], Result], seconds: float, meanwhile: Callable[[], float]) -> Result:
        """What `function` gives, which runs in another thread.

        `meanwhile` runs in this one, at once and again after the seconds that it returns. Raises what either of them
        raises, `TimeoutError` after `seconds`, and `Stopped`; the function is then left to itself. After a signal it is
        not even begun.
        """
        self.check()
        until = time.monotonic() + seconds
        call = _Call(function, self._inbox)
        while True:
            self.check()
            pause = meanwhile()
            if call.done:
                return call.result()
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            with suppress(Empty):
                self._inbox.get(timeout=min(left, max(pause, 0.01)))
