"""A discrete-event model of requests on their way through API Gateway, Lambda, DynamoDB, the search domain and Bedrock.

No wall clock: time is a number that jumps from event to event, and chance is a seed. Queues are served in the order in
which they are joined; who would wait longer than its patience is refused after it.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import count

Process = Iterator[float]
"""Yields the seconds until it wants to go on."""
Stage = Generator[float, None, str]
"""A part of a process; returns the limit that refused it, or nothing."""


class Events:
    """The clock, and what happens when."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[tuple[float, int, Process]] = []
        self._numbers = count()

    def start(self, process: Process, at: float) -> None:
        heapq.heappush(self._waiting, (at, next(self._numbers), process))

    def run(self) -> None:
        """Until nothing waits any more."""
        while self._waiting:
            self.now, _, process = heapq.heappop(self._waiting)
            pause = next(process, None)
            if pause is not None:
                self.start(process, self.now + pause)


class Bucket:
    """Tokens that come at a rate and are kept up to a number; it begins full, or with so many."""

    def __init__(self, rate: float, most: float, begin: float | None = None) -> None:
        self._rate, self._most = rate, most
        self._tokens, self._at = most if begin is None else begin, 0.0

    def take(self, now: float, tokens: float = 1.0) -> bool:
        """Now or not at all."""
        self._fill(now)
        if self._tokens < tokens:
            return False
        self._tokens -= tokens
        return True

    def reserve(self, now: float, tokens: float, patience: float) -> float | None:
        """Seconds until the tokens are there; None, and nothing taken, when that is beyond the patience."""
        self._fill(now)
        wait = max(0.0, (tokens - self._tokens) / self._rate)
        if wait > patience:
            return None
        self._tokens -= tokens
        return wait

    def _fill(self, now: float) -> None:
        self._tokens = min(self._most, self._tokens + (now - self._at) * self._rate)
        self._at = now


class Servers:
    """So many that serve one at a time each, and one queue before them."""

    def __init__(self, number: int) -> None:
        self._free = [0.0] * number

    def reserve(self, now: float, seconds: float, patience: float) -> float | None:
        """Seconds until it is served through; None when its turn would come after the patience."""
        begins = max(now, self._free[0])
        if begins - now > patience:
            return None
        heapq.heapreplace(self._free, begins + seconds)
        return begins + seconds - now


class Functions:
    """Lambda: environments of each function, and the account's limit of running ones."""

    def __init__(self, concurrency: float, at_once: float, a_second: float) -> None:
        self._concurrency, self._at_once, self._a_second = concurrency, at_once, a_second
        self.running = 0
        self._idle: Counter[str] = Counter()
        self._growth: dict[str, Bucket] = {}

    def enter(self, name: str, now: float) -> bool | None:
        """Whether the environment is a new one; None when the request is throttled."""
        if self.running >= self._concurrency:
            return None
        cold = self._idle[name] == 0
        if cold:
            growth = self._growth.setdefault(name, Bucket(self._a_second, self._at_once))
            if not growth.take(now):
                return None
        else:
            self._idle[name] -= 1
        self.running += 1
        return cold

    def leave(self, name: str) -> None:
        self.running -= 1
        self._idle[name] += 1


@dataclass(slots=True)
class Outcome:
    """`answered` requests and those `refused` by limit, of those that came after the warm-up; latencies in seconds.

    `waited` sums up microseconds by limit, `worse` answers that came without a part. `busy` is running functions times
    seconds, over all of `seconds`.
    """

    seconds: float
    warm_up: float
    answered: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    waited: Counter[str] = field(default_factory=Counter)
    worse: Counter[str] = field(default_factory=Counter)
    busy: float = 0.0
    most_running: int = 0

    @property
    def rate(self) -> float:
        """Answered a second."""
        return self.answered / (self.seconds - self.warm_up)

    @property
    def mean_running(self) -> float:
        return self.busy / self.seconds


def arrivals(rate: float, seconds: float, source: random.Random | None) -> Iterator[float]:
    """Moments from 0: evenly spaced, or with a `source` at random (Poisson)."""
    now = 0.0
    for number in count():
        now = number / rate if source is None else now + source.expovariate(rate)
        if now >= seconds:
            return
        yield now


def starting(events: Events, moments: Iterator[float], begin: Callable[[float], Process]) -> Process:
    """Begins one process at each moment without keeping all of them."""
    last = 0.0
    for moment in moments:
        yield moment - last
        last = moment
        events.start(begin(moment), events.now)
