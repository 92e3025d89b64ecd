"""The change stream of the local server: the outbox through the indexer, vectors and retries in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from functions.indexer.handler import handler as indexer
from shared.api.stream import record
from shared.domain.errors import NotFound, StaleEpoch, Unavailable
from shared.domain.memory import VaultRef
from shared.usecases.indexing import fill_vectors, load_model
from shared.usecases.services import Services

log = logging.getLogger("strata.worker")

CHANGES_AT_ONCE = 500
VECTORS_BEFORE_ANSWER = 64
"""A request that changes more rows is answered without any: all its vectors are made in the background."""
# Few at first, twice as many while a batch is soon over: the end of the server does not wait long, whatever the model.
VECTORS_AT_ONCE, MOST_VECTORS_AT_ONCE = 8, 256
SOON_S = 0.05
RETRY_S, MAX_RETRY_S = 1.0, 60.0
TIDY_S = 2.0
REST_S = 5.0
# Between two steps of upkeep.
BREATH_S = 0.02


class Worker:
    """Brings changes into the index, one hand per vault at a time.

    `drain` serves a request's own changes; what it leaves over, and what failed, the thread of `start` finishes.
    """

    def __init__(
        self,
        services: Services,
        indexer: Callable[[Any, object], dict[str, Any]] = indexer,
        others: Callable[[], Sequence[Any]] | None = None,
        upkeep: Callable[[], bool] | None = None,
    ) -> None:
        """`others` hands out, once each, records of the change stream that ask for something else than indexing.

        `upkeep` takes one bounded step of the store's upkeep and says whether there is another to take soon. It
        touches the vaults in which it finds something waiting.
        """
        self._services = services
        self._indexer = indexer
        self._others = others
        self._upkeep = upkeep
        self._left_over: list[Any] = []
        self._wake = threading.Condition()
        self._waiting: OrderedDict[VaultRef, float] = OrderedDict()
        """When each vault's turn comes, by the monotonic clock."""
        self._locks: dict[VaultRef, threading.Lock] = {}
        self._stopping = False
        self._resting_until = 0.0
        self._batches: dict[VaultRef, int] = {}
        """How many passages the thread embeds next, where it is not `VECTORS_AT_ONCE`."""
        self._failures: dict[VaultRef, int] = {}
        """How often the thread failed at a vault whose last attempt did."""
        self._thread: threading.Thread | None = None

    def drain(self, vault: VaultRef) -> None:
        """Index the words of every change so far and at most `VECTORS_BEFORE_ANSWER` vectors. Never raises."""
        behind: bool | None = False
        if self._thread is not None:
            resting = time.monotonic() < self._resting_until
            behind = None if resting else self._has_passages_waiting(vault)
            if behind is None:
                # Requests do not wait, one after the other, for an index that does not answer.
                self._resting_until = self._resting_until if resting else time.monotonic() + REST_S
                self._queue(vault)
                return
        # Vectors are made oldest first: behind others that wait, a request would pay for theirs and not get its own.
        if not self._attempt(vault, 0 if behind else VECTORS_BEFORE_ANSWER) or self._has_passages_waiting(vault):
            self._queue(vault)

    def _failing(self, vault: VaultRef) -> bool:
        """Whether the last attempt failed, so that a request that waited for it need not make another."""
        return vault in self._failures and threading.current_thread() is not self._thread

    def start(self, backlog: Callable[[], Iterable[VaultRef]] = tuple) -> None:
        """Work in the background: load the default model, look at the vaults of `backlog`, then at what is queued."""
        self._thread = threading.Thread(target=self._run, args=(backlog,), name="strata-worker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the piece of work at hand and end the thread. What is left is found again after the next start."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self, backlog: Callable[[], Iterable[VaultRef]]) -> None:
        try:
            self._services.embedders[self._services.policy.default_model].load()
        except Exception as error:
            log.error("the embedding model could not be loaded: %s", type(error).__name__)
        try:
            for found in backlog():
                self._queue(found)
        except Exception as error:
            log.error("looking for waiting vaults failed: %s", type(error).__name__)
        again = None if self._others is None and self._upkeep is None else time.monotonic()
        while not self._stopping:
            self._tidy()
            vault = self._next(again)
            if vault is None:
                again = time.monotonic() + (BREATH_S if self._keep_up() else TIDY_S)
                continue
            more = self._fill(vault) if self._attempt(vault, 0) else None
            if more is None:
                self._queue(vault, self._patience(vault))
                continue
            self._failures.pop(vault, None)
            if more:
                self._queue(vault)

    def _tidy(self) -> None:
        """Finish what a crash left half done. What fails is tried again in the next round."""
        if self._others is None:
            return
        try:
            self._left_over += self._others()
            if self._left_over:
                reply = self._indexer({"Records": self._left_over}, None)
                failed = {each["itemIdentifier"] for each in reply["batchItemFailures"]}
                self._left_over = [each for each in self._left_over if each["dynamodb"]["SequenceNumber"] in failed]
                for vault in self._services.feed.touched():
                    self._queue(vault)
        except Exception as error:
            log.error("finishing what was left failed: %s", type(error).__name__)

    def _keep_up(self) -> bool:
        """Take a step of upkeep; whether there is another to take soon."""
        if self._upkeep is None:
            return False
        try:
            more = self._upkeep()
            for vault in self._services.feed.touched():
                # One that failed keeps its own time.
                if vault not in self._waiting:
                    self._queue(vault)
            return more
        except Exception as error:
            log.error("upkeep failed: %s", type(error).__name__)
            return False

    def _next(self, again: float | None) -> VaultRef | None:
        """The vault that waits longest of those whose turn has come; None at the end, and at `again` at the latest."""
        with self._wake:
            while not self._stopping:
                now = time.monotonic()
                if again is not None and now >= again:
                    return None
                vault = next((vault for vault, turn in self._waiting.items() if turn <= now), None)
                if vault is not None:
                    del self._waiting[vault]
                    return vault
                turns = [*self._waiting.values(), *(() if again is None else (again,))]
                self._wake.wait(min(turns) - now if turns else None)
            return None

    def _patience(self, vault: VaultRef) -> float:
        """Seconds until the next attempt at a vault that failed once more. The others go on meanwhile."""
        failures = self._failures[vault] = self._failures.get(vault, 0) + 1
        return min(RETRY_S * 2.0 ** min(failures, 10), MAX_RETRY_S)

    def _queue(self, vault: VaultRef, seconds: float = 0.0) -> None:
        with self._wake:
            turn = time.monotonic() + seconds
            self._waiting[vault] = min(turn, self._waiting.get(vault, turn))
            self._wake.notify()

    @contextmanager
    def _turn(self, vault: VaultRef) -> Iterator[bool]:
        """Be the one hand at this vault; says whether another had to be waited for."""
        with self._wake:
            lock = self._locks.setdefault(vault, threading.Lock())
        waited = not lock.acquire(blocking=False)
        if waited:
            lock.acquire()
        try:
            yield waited
        finally:
            lock.release()

    def _attempt(self, vault: VaultRef, vectors: int) -> bool:
        """Whether everything that waited in the outbox is indexed by its words."""
        feed = self._services.feed
        try:
            with self._turn(vault) as waited:
                if waited and self._failing(vault):
                    return False
                if waited and self._thread is not None:
                    # It paid for the vectors of others already; its own come in the background.
                    vectors = 0
                while changes := feed.pending(vault, CHANGES_AT_ONCE):
                    if len(changes) > VECTORS_BEFORE_ANSWER:
                        # A part of them would not make it whole, and the answer would wait for it.
                        vectors = 0
                    event = {"Records": [record(vault, change) for change in changes], "vectors": vectors}
                    vectors = 0
                    failures = {each["itemIdentifier"] for each in self._indexer(event, None)["batchItemFailures"]}
                    feed.acknowledge(vault, [change for change in changes if str(change.seq) not in failures])
                    if failures:
                        self._failures.setdefault(vault, 0)
                        return False
            return True
        except (StaleEpoch, NotFound):
            self._forget(vault)
            return True
        except Exception as error:
            log.error("bringing changes into the index failed: %s", type(error).__name__)
            return False

    def _fill(self, vault: VaultRef) -> bool | None:
        """Make some vectors; whether there may be more to make, None when it failed."""
        try:
            batch = self._batches.pop(vault, VECTORS_AT_ONCE)
            if not self._services.index.without_vectors(vault, 1):
                return False
            # Without the vault's turn, so that no request of this vault waits for the model. At worst a passage is
            # embedded twice.
            load_model(self._services, vault)
            begun = time.monotonic()
            made = fill_vectors(self._services, vault, batch)
            spent = time.monotonic() - begun
            if spent < 4 * SOON_S:
                self._batches[vault] = min(2 * batch, MOST_VECTORS_AT_ONCE) if spent < SOON_S else batch
            return made > 0
        except (StaleEpoch, NotFound):
            self._forget(vault)
            return False
        except Exception as error:
            log.error("filling in vectors failed: %s", type(error).__name__)
            return None

    def _has_passages_waiting(self, vault: VaultRef) -> bool | None:
        """None when the index does not answer."""
        try:
            return bool(self._services.index.without_vectors(vault, 1))
        except Unavailable:
            return None
        except Exception:
            return False

    def _forget(self, vault: VaultRef) -> None:
        with self._wake:
            self._locks.pop(vault, None)
