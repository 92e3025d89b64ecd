"""Clients in threads: each does one thing after another, or all keep to a fixed rate of arrivals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice

from tests.load.driver import Driver
from tests.load.script import Step, steps


class Bounds:
    """When a run has to stop, whatever its clients are at: at a moment, or after so many steps. `begun` counts them."""

    def __init__(self, until: float, steps: int) -> None:
        self.until = until
        self.begun = 0
        self._most = steps
        self._lock = threading.Lock()

    def more(self) -> bool:
        """Whether another step may begin; counts it."""
        with self._lock:
            if self.begun >= self._most or time.monotonic() >= self.until:
                return False
            self.begun += 1
            return True


def closed_loop(driver: Driver, bounds: Bounds, seed: int, clients: int, vaults: int, mix: Mapping[str, int]) -> None:
    """Every client takes its next step when the last one is answered: the load gives way to a slow server."""

    def client(number: int) -> None:
        for step in steps(seed, number, vaults, mix):
            if not bounds.more():
                return
            driver.take(step)

    _together(clients, client)


def open_loop(
    driver: Driver, bounds: Bounds, seed: int, clients: int, vaults: int, mix: Mapping[str, int], rate: float
) -> None:
    """Steps begin `rate` times a second, evenly, whether the server keeps up or not.

    `clients` of them at most are on their way; a step that no client is free for begins late, and the wait counts.
    """
    began = time.monotonic()
    script, numbers, lock = steps(seed, 0, vaults, mix), count(), threading.Lock()

    def following() -> Iterator[tuple[Step, float]]:
        while True:
            with lock:
                (step,) = islice(script, 1)
                intended = began + next(numbers) / rate
            yield step, intended

    def client(number: int) -> None:
        for step, intended in following():
            if intended >= bounds.until or not bounds.more():
                return
            time.sleep(max(0.0, intended - time.monotonic()))
            driver.take(step, intended)

    _together(clients, client)


def _together(clients: int, body: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            body(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(1, clients + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
