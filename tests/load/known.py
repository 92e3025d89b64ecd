"""What the clients of a vault were told, to be held against what the vault holds in the end."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LEASED, COMMITTED, RELEASED, UNSURE = "leased", "committed", "released", "unsure"


@dataclass(slots=True)
class Held:
    """A checkout. `state` is what its client was told last, `UNSURE` when a request about it was not answered."""

    tier: int
    sources: tuple[str, ...]
    state: str = LEASED
    created: tuple[str, ...] = ()


@dataclass(slots=True)
class Known:
    """One vault. Safe to use from several threads.

    `rows` are acknowledged raw rows (id → the word that only it has); `lines` such words of acknowledged uploads, whose
    ids no answer tells; `unsure` words of writes without an answer. `deleted` (id → when that was answered) and
    `perhaps_deleted` likewise. `lost_leases` counts checkouts without an answer; `broken` promises that answers broke.
    """

    key: str
    rows: dict[str, str] = field(default_factory=dict)
    lines: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    deleted: dict[str, float] = field(default_factory=dict)
    perhaps_deleted: set[str] = field(default_factory=set)
    reflections: list[str] = field(default_factory=list)
    batches: dict[str, Held] = field(default_factory=dict)
    lost_leases: int = 0
    broken: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _order: list[str] = field(default_factory=list)

    def stored(self, ids: Sequence[str], names: Sequence[str]) -> None:
        with self.lock:
            if len(ids) != len(names):
                self.broken.append(f"an ingest of {len(names)} messages was answered with {len(ids)} ids")
            self.rows.update(zip(ids, names, strict=False))
            self._order.extend(ids)

    def pick_row(self, source: random.Random) -> tuple[str, str] | None:
        """(id, its own word) of a row that nobody deleted as far as is known."""
        with self.lock:
            for _ in range(5):
                if not self._order:
                    return None
                memory_id = source.choice(self._order)
                if memory_id not in self.deleted and memory_id not in self.perhaps_deleted:
                    return memory_id, self.rows[memory_id]
        return None

    def pick_any(self, source: random.Random) -> str | None:
        """The id of a reflection or of a raw row."""
        with self.lock:
            if self.reflections and source.random() < 0.5:
                return source.choice(self.reflections)
        row = self.pick_row(source)
        return None if row is None else row[0]

    def about_to_delete(self, ids: Sequence[str]) -> None:
        with self.lock:
            self.perhaps_deleted.update(ids)

    def was_deleted(self, ids: Sequence[str], now: float) -> None:
        with self.lock:
            self.deleted.update(dict.fromkeys(ids, now))
            self.perhaps_deleted.difference_update(ids)

    def check_live(self, ids: Sequence[str], asked: float) -> None:
        """No row may be shown whose deletion was answered before the question was asked."""
        with self.lock:
            ghosts = [memory_id for memory_id in ids if self.deleted.get(memory_id, asked) < asked]
            self.broken.extend(f"{memory_id} was shown after its deletion" for memory_id in ghosts)

    def still_there(self, memory_id: str) -> bool:
        with self.lock:
            return memory_id not in self.deleted and memory_id not in self.perhaps_deleted

    def leased(self, batch_id: str, tier: int, sources: Sequence[str]) -> None:
        with self.lock:
            self.batches[batch_id] = Held(tier, tuple(sources))

    def move(self, batch_id: str, state: str) -> None:
        with self.lock:
            self.batches[batch_id].state = state

    def committed(self, batch_id: str, body: Mapping[str, object], created: Sequence[str]) -> None:
        """Every answer to a commit of one batch must tell the first one's result."""
        with self.lock:
            batch = self.batches[batch_id]
            if batch.created and batch.created != tuple(created):
                self.broken.append(f"a replay of {batch_id} created other rows")
            if not batch.created:
                self.reflections.extend(created)
            elif not body.get("already_committed"):
                self.broken.append(f"{batch_id} was committed twice")
            batch.state, batch.created = COMMITTED, tuple(created)

    def fail(self, what: str) -> None:
        with self.lock:
            self.broken.append(what)
