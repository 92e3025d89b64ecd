"""One thread at a time: workers run real code on real SQLite files and pause before every statement.

Which worker goes on is the choice of a `Chooser`, so one schedule can be repeated and all of them can be walked. Steps
that no other worker can see or hinder (a statement inside a write transaction that is held, a second read of one
snapshot) are not choice points; a crash may happen before each of them all the same.
"""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from tests.contract.sqlite_rig import Unsynced, connect

Kind = Literal["local", "snapshot", "acquire", "publish", "both"]
Move = Literal["step", "crash"]
LIMIT_SECONDS = 30.0
WRITING = frozenset(("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP"))


class Crash(BaseException):
    """The worker's process died here: no handler of the code under test may outlive it."""


class Stuck(Exception):
    """Nobody can go on, or a worker never came back."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a request looks at and what it changes, by names; `notices` are names that only lookers go by."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    notices: frozenset[str] = frozenset()

    def disjoint(self, other: Footprint) -> bool:
        """Whether neither request can tell which of them came first."""
        return (
            self.writes.isdisjoint(other.writes)
            and self.reads.isdisjoint(other.writes | other.notices)
            and other.reads.isdisjoint(self.writes | self.notices)
        )


@dataclass(frozen=True, slots=True)
class Step:
    """What a worker would do next: `kind` says who could notice, `place` which file it is about.

    A step on a table of items says it by its `footprint` instead.
    """

    worker: int
    move: Move
    kind: Kind
    place: str
    footprint: Footprint | None = None

    def same(self, other: Step) -> bool:
        return self.worker == other.worker and self.move == other.move

    def independent(self, other: Step) -> bool:
        """Whether the two orders of these steps lead to the same state, and neither forbids the other."""
        if self.worker == other.worker or (self.move == "crash" and other.move == "crash"):
            return False
        if self.footprint is not None and other.footprint is not None:
            return self.footprint.disjoint(other.footprint)
        apart = self.place != other.place and self.place and other.place
        if apart or "local" in (self.kind, other.kind):
            return True
        return {self.kind, other.kind} in ({"snapshot"}, {"snapshot", "acquire"})


class Chooser(Protocol):
    def choose(self, options: Sequence[Step]) -> Step | None:
        """One of the options; None gives this schedule up as a repetition."""
        ...


@dataclass
class Worker:
    number: int
    body: Callable[[], None]
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    thread: threading.Thread | None = None
    kind: Kind = "local"
    place: str = ""
    footprint: Footprint | None = None
    crashing: bool = False
    done: bool = False
    failure: BaseException | None = None
    connections: list[Connection] = field(default_factory=list)


class Scheduler:
    """Runs one schedule. `crashes` is how many workers may die in it.

    With `every_statement` each statement is a choice point, also those that concern nobody else.
    """

    def __init__(self, crashes: int = 0, every_statement: bool = False) -> None:
        self._every_statement = every_statement
        self.workers: list[Worker] = []
        self.steps = 0
        self.crashed = 0
        self.given_up = False
        self._crashes = crashes
        self._back = threading.Semaphore(0)
        self._mine = threading.local()
        self.locks: dict[str, Worker] = {}

    def connect(self, path: Path) -> sqlite3.Connection:
        """The factory to give to the store instead of its own."""
        connection = connect(path, Connection, seconds=0)
        assert isinstance(connection, Connection)
        connection.scheduler, connection.place = self, path.name
        return connection

    @property
    def current(self) -> Worker | None:
        worker: Worker | None = getattr(self._mine, "worker", None)
        return worker

    def add(self, body: Callable[[], None]) -> None:
        self.workers.append(Worker(len(self.workers), body))

    def pause(self, kind: Kind, place: str, footprint: Footprint | None = None) -> None:
        """Called by a worker before its next statement: wait until it is chosen. Raises `Crash` when it must die."""
        worker = self.current
        if worker is None:
            return
        if worker.crashing:
            raise Crash
        worker.kind, worker.place, worker.footprint = kind, place, footprint
        self._back.release()
        worker.go.acquire()
        if worker.crashing:
            raise Crash

    def run(self, chooser: Chooser) -> None:
        for worker in self.workers:
            worker.thread = threading.Thread(target=self._live, args=(worker,), daemon=True)
            worker.thread.start()
            self._wait()
        while waiting := [worker for worker in self.workers if not worker.done]:
            step = chooser.choose(self._options(waiting))
            if step is None:
                self.given_up = True
                break
            self._move(self.workers[step.worker], step.move)
        for worker in self.workers:
            if not worker.done:
                worker.crashing = True
                self._resume(worker)
        for worker in self.workers:
            if worker.failure is not None:
                raise worker.failure

    def _options(self, waiting: list[Worker]) -> list[Step]:
        inside = next((worker for worker in waiting if worker.kind == "local"), None)
        able = (
            [inside]
            if inside is not None and not self._every_statement
            else [worker for worker in waiting if self._able(worker)]
        )
        if not able:
            raise Stuck("every worker waits for another one")
        steps = [Step(worker.number, "step", worker.kind, worker.place, worker.footprint) for worker in able]
        if self.crashed < self._crashes:
            for worker in able:
                held = worker in self.locks.values()
                steps.append(Step(worker.number, "crash", "acquire" if held else "local", "" if held else worker.place))
        return steps

    def _able(self, worker: Worker) -> bool:
        holder = self.locks.get(worker.place)
        return worker.kind not in ("acquire", "both") or holder is None or holder is worker

    def _move(self, worker: Worker, move: Move) -> None:
        if move == "crash":
            worker.crashing = True
            self.crashed += 1
        self.steps += 1
        self._resume(worker)

    def _resume(self, worker: Worker) -> None:
        worker.go.release()
        self._wait()

    def _wait(self) -> None:
        if not self._back.acquire(timeout=LIMIT_SECONDS):
            raise Stuck("a worker neither paused nor ended")

    def _live(self, worker: Worker) -> None:
        self._mine.worker = worker
        try:
            self.pause("local", "")
            worker.body()
        except Crash:
            pass
        except BaseException as error:  # handed to the test's own thread
            worker.failure = error
        finally:
            for connection in worker.connections:
                connection.abandon()
            worker.done = True
            self._back.release()


class Lock:
    """A lock between the workers of one process, for code that runs statements while it holds one."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self._scheduler, self._name = scheduler, name

    def __enter__(self) -> None:
        worker = self._scheduler.current
        if worker is not None:
            self._scheduler.pause("acquire", self._name)
            self._scheduler.locks[self._name] = worker

    def __exit__(self, *_: object) -> None:
        self._scheduler.locks.pop(self._name, None)


class Connection(Unsynced):
    """A connection that asks its scheduler before every statement and knows whether it holds the write lock."""

    scheduler: Scheduler
    place: str
    holds_lock = False
    has_snapshot = False
    dead = False

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self._before(sql)
        return self._after(sql, lambda: super(Connection, self).execute(sql, parameters))

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        self._before(sql)
        return self._after(sql, lambda: super(Connection, self).executemany(sql, parameters))

    def _before(self, sql: str) -> None:
        if self.dead:
            raise Crash
        if not sql.startswith("PRAGMA"):
            self.scheduler.pause(self._kind(sql), self.place)

    def _kind(self, sql: str) -> Kind:
        word = sql.split(None, 1)[0].upper()
        if word == "PRAGMA" or self.holds_lock:
            return "publish" if word in ("COMMIT", "END") else "local"
        if word == "BEGIN":
            return "acquire" if "IMMEDIATE" in sql.upper() or "EXCLUSIVE" in sql.upper() else "local"
        writes = word in WRITING or (word == "WITH" and bool(WRITING & set(sql.upper().split())))
        if self.in_transaction:
            return (
                "acquire" if writes else "local" if self.has_snapshot or word in ("COMMIT", "ROLLBACK") else "snapshot"
            )
        return "both" if writes else "snapshot"

    def _after(self, sql: str, run: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        kind, worker = self._kind(sql), self.scheduler.current
        cursor = run()
        if worker is not None and self not in worker.connections:
            worker.connections.append(self)
        if not self.in_transaction:
            self._free()
        elif kind == "acquire":
            self.holds_lock = True
            if worker is not None:
                self.scheduler.locks[self.place] = worker
        elif kind == "snapshot":
            self.has_snapshot = True
        return cursor

    def _free(self) -> None:
        if self.holds_lock:
            self.scheduler.locks.pop(self.place, None)
        self.holds_lock = self.has_snapshot = False
        worker = self.scheduler.current
        if worker is not None and self in worker.connections:
            worker.connections.remove(self)

    def close(self) -> None:
        super().close()
        self._free()

    def abandon(self) -> None:
        """What is left of a connection whose worker died: nothing that was not committed."""
        self.dead = True
        sqlite3.Connection.close(self)
        if self.holds_lock:
            self.scheduler.locks.pop(self.place, None)
        self.holds_lock = False


@dataclass
class _Node:
    options: list[Step]
    sleeping: list[Step]
    chosen: int = 0


class EveryOrder:
    """Walks all schedules, depth first, leaving out those that only swap steps which do not concern each other.

    Use: ``while walk.more(): run one schedule with it``. Steps put to sleep are those whose every continuation was
    seen already.
    """

    def __init__(self) -> None:
        self._path: list[_Node] = []
        self._depth = 0
        self._sleeping: list[Step] = []
        self._begun = False

    def more(self) -> bool:
        """Move to the next schedule; False when all were walked."""
        if self._begun:
            while self._path and not self._advance(self._path[-1]):
                self._path.pop()
            if not self._path:
                return False
        self._begun = True
        self._depth, self._sleeping = 0, []
        return True

    @staticmethod
    def _advance(node: _Node) -> bool:
        node.sleeping.append(node.options[node.chosen])
        asleep = node.sleeping
        for number in range(node.chosen + 1, len(node.options)):
            if not any(node.options[number].same(step) for step in asleep):
                node.chosen = number
                return True
        return False

    def choose(self, options: Sequence[Step]) -> Step | None:
        if self._depth == len(self._path):
            awake = [n for n, option in enumerate(options) if not any(option.same(s) for s in self._sleeping)]
            if not awake:
                return None
            self._path.append(_Node(list(options), list(self._sleeping), awake[0]))
        node = self._path[self._depth]
        self._depth += 1
        step = node.options[node.chosen]
        self._sleeping = [other for other in node.sleeping if other.independent(step)]
        return step


class SeededOrder:
    """One schedule drawn from a seed; each worker's crash is taken with the given probability per step."""

    def __init__(self, seed: int, crash_chance: float = 0.0) -> None:
        self._random = random.Random(seed)
        self._chance = crash_chance

    def choose(self, options: Sequence[Step]) -> Step | None:
        steps = [option for option in options if option.move == "step"]
        crashes = [option for option in options if option.move == "crash"]
        if crashes and self._random.random() < self._chance:
            return self._random.choice(crashes)
        return self._random.choice(steps)
