"""A configuration, its execution under one schedule, and the judgement about what came of it.

The judgement is independent of the code under test: the answers and the final content must be those of *some* order in
which the reference model answers the same calls one by one, and in which no call comes before one that had ended when
it began. A call whose worker died may have happened or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from shared.domain.batch import Batch, State
from shared.domain.errors import StaleEpoch, StrataError
from shared.domain.memory import VaultRef
from shared.ports.store import ChangeFeed, Committed, MemoryStore
from tests.contract.model import ModelStore
from tests.contract.rows import uuid7
from tests.simulation.audit import audit
from tests.simulation.scheduler import Chooser, EveryOrder, Scheduler, SeededOrder

VAULT = VaultRef(uuid7(1), 1)
CRASH_CHANCE = 0.05
EPOCHS = (VAULT, VaultRef(VAULT.vault_id, VAULT.epoch + 1))


class Site(Protocol):
    """Where a call is made: the store, and the way to the vault's next content."""

    @property
    def store(self) -> MemoryStore: ...

    @property
    def feed(self) -> ChangeFeed: ...

    @property
    def vault(self) -> VaultRef: ...

    def bump(self) -> object: ...

    def finish_purges(self) -> None: ...

    def close(self) -> None: ...


class Stage(Protocol):
    """Where schedules of one back end are played."""

    def prepare(self, before: Sequence[Call]) -> None:
        """Make the state that every schedule begins in."""
        ...

    def begin(self, scheduler: Scheduler, drops: bool) -> Site:
        """That state anew, for workers of `scheduler`. With `drops` contents come and go."""
        ...

    def rest(self, batch_ids: Sequence[str]) -> Site:
        """What the last schedule left, once whatever goes on by itself has come to its end."""
        ...

    def said(self, answer: tuple[str, object]) -> tuple[str, object]:
        """The part of an answer that the back end promises to be of one moment."""
        ...


@dataclass(frozen=True)
class Call:
    """One verb with its arguments; `does` gives the same answer wherever it runs alone."""

    name: str
    does: Callable[[Site], object]

    def answer(self, site: Site) -> tuple[str, object]:
        try:
            return "answer", self.does(site)
        except StrataError as error:
            return "refusal", error.code


class ModelSite:
    def __init__(self) -> None:
        self.store = self.feed = ModelStore()
        self.vault = VAULT
        self.store.current[VAULT.vault_id] = VAULT.epoch

    def bump(self) -> object:
        self.store.current[VAULT.vault_id] += 1
        return self.store.current[VAULT.vault_id]

    def finish_purges(self) -> None:
        self.store.purge(VAULT.vault_id, self.store.current[VAULT.vault_id])

    def close(self) -> None:
        pass


@dataclass
class Counts:
    """What a run of schedules amounted to."""

    configurations: int = 0
    interleavings: int = 0
    repetitions: int = 0
    crashes: int = 0
    commits: int = 0
    violations: int = 0

    def add(self, other: Counts) -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def line(self) -> str:
        return ", ".join(f"{name} {getattr(self, name)}" for name in self.__dataclass_fields__)


class Violation(AssertionError):
    """A schedule whose outcome the promises do not allow."""


@dataclass
class History:
    """Per worker and call: the answer, and at which step it was begun and ended. The last call of a worker that died
    has a beginning only."""

    answers: list[list[tuple[str, object]]]
    started: list[list[int]]
    ended: list[list[int]]

    def may_follow(self, worker: int, done: list[int]) -> bool:
        """Whether the worker's next call may come now: no call that is still to come had ended before it began."""
        began = self.started[worker][done[worker]]
        return not any(
            number < len(ended) and ended[number] < began for number, ended in zip(done, self.ended, strict=True)
        )

    def commits(self) -> int:
        values = [value for answers in self.answers for _, value in answers]
        return sum(isinstance(value, Committed) and not value.already_committed for value in values)


@dataclass
class Configuration:
    """`before` runs alone; then each list of `workers` runs as one worker."""

    name: str
    before: Sequence[Call]
    workers: Sequence[Sequence[Call]]
    batch_ids: Sequence[str] = ()
    drops: bool = False
    _orders: dict[tuple[int, ...], tuple[ModelSite, list[tuple[str, object]]]] = field(default_factory=dict)

    def run(self, stage: Stage, chooser: Chooser, crashes: int) -> Counts:
        """One schedule, judged. Raises `Violation`."""
        scheduler = Scheduler(crashes)
        site = stage.begin(scheduler, self.drops)
        history = History([[] for _ in self.workers], [[] for _ in self.workers], [[] for _ in self.workers])
        for number, calls in enumerate(self.workers):
            scheduler.add(self._body(site, calls, history, number, scheduler))
        try:
            scheduler.run(chooser)
        finally:
            site.close()
        counts = Counts(repetitions=1) if scheduler.given_up else Counts(interleavings=1, crashes=scheduler.crashed)
        if not scheduler.given_up:
            self._judge(stage, history)
            counts.commits = history.commits()
        return counts

    @staticmethod
    def _body(
        site: Site, calls: Sequence[Call], history: History, number: int, scheduler: Scheduler
    ) -> Callable[[], None]:
        def body() -> None:
            for call in calls:
                history.started[number].append(scheduler.steps)
                history.answers[number].append(call.answer(site))
                history.ended[number].append(scheduler.steps)

        return body

    def _judge(self, stage: Stage, history: History) -> None:
        site = stage.rest(self.batch_ids)
        try:
            seen = content(site, self.batch_ids)
            if not any(self._matches(order, seen) for order in self._possible(history, stage)):
                raise Violation(f"{self.name}: no order explains {history.answers} with {seen}")
            for epoch in EPOCHS:
                audit(site.store, site.feed, epoch, self.batch_ids)
        finally:
            site.close()

    def _possible(self, history: History, stage: Stage) -> Iterator[tuple[int, ...]]:
        """Orders of the calls: worker numbers, each as often as it got answers, and once more where it died."""
        least = [len(answers) for answers in history.answers]
        most = [len(started) for started in history.started]

        def extend(order: tuple[int, ...], done: list[int]) -> Iterator[tuple[int, ...]]:
            if all(have >= need for have, need in zip(done, least, strict=True)):
                yield order
            for worker, number in enumerate(done):
                if number < most[worker] and history.may_follow(worker, done):
                    expected = history.answers[worker][number] if number < least[worker] else None
                    longer = (*order, worker)
                    if expected is None or stage.said(self._replayed(longer)[1][-1]) == stage.said(expected):
                        yield from extend(longer, [*done[:worker], number + 1, *done[worker + 1 :]])

        return extend((), [0 for _ in self.workers])

    def _matches(self, order: tuple[int, ...], seen: object) -> bool:
        return content(self._replayed(order)[0], self.batch_ids) == seen

    def _replayed(self, order: tuple[int, ...]) -> tuple[ModelSite, list[tuple[str, object]]]:
        if order not in self._orders:
            site = ModelSite()
            for call in self.before:
                call.answer(site)
            done = [0 for _ in self.workers]
            answers = []
            for worker in order:
                answers.append(self.workers[worker][done[worker]].answer(site))
                done[worker] += 1
            self._orders[order] = site, answers
        return self._orders[order]


def visible(batch: Batch) -> Batch:
    """What a batch says for good; the gap of a batch that never committed is nobody's business."""
    return batch if batch.state in (State.COMMITTED, State.SETTLED) else replace(batch, sources_deleted=0)


def content(site: Site, batch_ids: Sequence[str]) -> object:
    """Everything that the two contents show which a configuration can meet, interrupted purges finished."""
    site.finish_purges()
    return [content_of(site.store, epoch, batch_ids) for epoch in EPOCHS]


def content_of(store: MemoryStore, vault: VaultRef, batch_ids: Sequence[str]) -> object:
    try:
        batches = {i: visible(batch) for i, batch in store.batches(vault, batch_ids).items()}
        return store.export(vault, None, 100_000), store.totals(vault), batches
    except StaleEpoch:
        return "gone"


def explore(configuration: Configuration, stage: Stage, crashes: int = 0, limit: int | None = None) -> Counts:
    """Every schedule of a configuration with at most that many crashes. Raises `Violation` at the first bad one.

    Where they are more than `limit`, half of it is walked in order and half drawn by seed.
    """
    stage.prepare(configuration.before)
    walk, counts = EveryOrder(), Counts(configurations=1)
    while walk.more():
        counts.add(configuration.run(stage, walk, crashes))
        if limit is not None and counts.interleavings >= limit // 2:
            break
    else:
        return counts
    for seed in range(limit - limit // 2):
        counts.add(configuration.run(stage, SeededOrder(seed, CRASH_CHANCE), crashes))
    return counts
