"""The passage table of one vault: columns that grow by doubling, and who stands before whom in a session.

Slot 0 is nobody: it is never alive, all its columns are zero, and `previous` points at it where nothing precedes. So
context is read by plain indexing, without masks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Key = tuple[int, int, int, int, int]
"""(date, id high, id low, passage number, slot): the order inside a session."""

NO_SESSION = -1


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a memory besides its words. `covers_*` of a raw row are its date."""

    id: tuple[int, int]
    tier: int
    importance: int
    date: int
    covers_from: int
    covers_to: int
    session: int
    role: int


class PassageTable:
    """Columns by slot; passages of one memory fill consecutive slots, and `memory` names the first of them."""

    _COLUMNS = (
        ("memory", np.int32), ("number", np.int32), ("tier", np.int8), ("importance", np.int8), ("date", np.int64),
        ("covers_from", np.int64), ("covers_to", np.int64), ("session", np.int32), ("role", np.int32),
        ("length", np.int32), ("alive", np.bool_), ("has_vector", np.bool_), ("previous", np.int32),
        ("following", np.int32), ("near", np.float32), ("far", np.float32), ("id_high", np.uint64),
        ("id_low", np.uint64),
    )  # fmt: skip

    memory: Ints
    number: Ints
    tier: npt.NDArray[np.int8]
    importance: npt.NDArray[np.int8]
    date: Longs
    covers_from: Longs
    covers_to: Longs
    session: Ints
    role: Ints
    length: Ints
    alive: Bools
    has_vector: Bools
    previous: Ints
    following: Ints
    near: Floats
    far: Floats
    id_high: npt.NDArray[np.uint64]
    id_low: npt.NDArray[np.uint64]
    vectors: Floats

    def __init__(self, dimension: int, capacity: int = 64) -> None:
        self.used = 1
        self.dimension = dimension
        self.dead = 0
        for name, kind in self._COLUMNS:
            setattr(self, name, np.zeros(capacity, kind))
        self.vectors = np.zeros((capacity, dimension), np.float32)
        self._orders: dict[int, list[Key]] = {}
        self._changed: set[int] = set()

    def bytes_used(self) -> int:
        columns = sum(getattr(self, name).nbytes for name, _ in self._COLUMNS)
        return int(columns) + self.vectors.nbytes + 120 * sum(map(len, self._orders.values()))

    def append(self, facts: Facts, lengths: Sequence[int]) -> int:
        """Enter a memory's passages, alive and linked, without vectors. Returns the first slot."""
        first = self.used
        self.write([facts] * len(lengths), range(len(lengths)), lengths)
        self._link(range(first, self.used))
        self.alive[first : self.used] = True
        return first

    def write(self, facts: Sequence[Facts], numbers: Sequence[int], lengths: Longs | Sequence[int]) -> None:
        """Enter passages, neither alive nor linked: one entry each, those of a memory in the order of their numbers."""
        first, end = self.used, self.used + len(facts)
        self._reserve(end)
        here = slice(first, end)
        self.number[here] = numbers
        self.memory[here] = np.arange(first, end) - self.number[here]
        self.length[here] = lengths
        for name in ("tier", "importance", "date", "covers_from", "covers_to", "session", "role"):
            getattr(self, name)[here] = [getattr(each, name) for each in facts]
        self.id_high[here] = [each.id[0] for each in facts]
        self.id_low[here] = [each.id[1] for each in facts]
        self.used = end

    def slots_of(self, first: int) -> range:
        """The slots of the memory that begins at `first`."""
        end = first + 1
        while end < self.used and self.memory[end] == first:
            end += 1
        return range(first, end)

    def remove(self, first: int) -> range:
        """Take a memory out of every reader's sight and out of its neighbours' context."""
        slots = self.slots_of(first)
        self._unlink(slots)
        here = slice(slots.start, slots.stop)
        self.alive[here] = False
        self.has_vector[here] = False
        self.vectors[here] = 0.0
        self.dead += len(slots)
        return slots

    def set_vector(self, slot: int, vector: Floats) -> None:
        self.vectors[slot] = vector
        self.has_vector[slot] = True
        self._touch(slot)

    def link_all(self) -> None:
        """Link rows that `write` entered in bulk and make them alive."""
        n = self.used
        self.alive[1:n] = True
        order = np.lexsort(
            (self.number[:n], self.id_low[:n], self.id_high[:n], self.date[:n], self.session[:n])
        ).astype(np.int32)
        order = order[(order != 0) & (self.session[order] != NO_SESSION)]
        self._chain(order, self.session[order])
        alone = np.flatnonzero(self.session[:n] == NO_SESSION).astype(np.int32)
        alone = alone[alone != 0]
        self._chain(alone, self.memory[alone])
        self._changed.update(range(1, n))

    def _chain(self, order: Ints, group: Ints) -> None:
        joined = group[1:] == group[:-1]
        self.previous[order[1:][joined]] = order[:-1][joined]
        self.following[order[:-1][joined]] = order[1:][joined]

    def refresh(self) -> bool:
        """Bring the cached products of neighbouring vectors up to date. False when nothing had changed."""
        if not self._changed:
            return False
        slots = np.fromiter(self._changed, np.int32, len(self._changed))
        for part in np.array_split(slots, len(slots) // 8192 + 1):
            before = self.previous[part]
            own = self.vectors[part]
            self.near[part] = np.vecdot(own, self.vectors[before])
            self.far[part] = np.vecdot(own, self.vectors[self.previous[before]])
        self._changed.clear()
        return True

    def compact(self) -> Ints:
        """Drop dead slots. Returns the new place of every old slot, 0 for the dead."""
        n = self.used
        kept = np.flatnonzero(self.alive[:n])
        kept = np.concatenate((np.zeros(1, kept.dtype), kept))
        moved = np.zeros(n, np.int32)
        moved[kept] = np.arange(len(kept), dtype=np.int32)
        for name, _ in self._COLUMNS:
            setattr(self, name, getattr(self, name)[:n][kept])
        for name in ("memory", "previous", "following"):
            setattr(self, name, moved[getattr(self, name)])
        self.vectors = self.vectors[:n][kept]
        self.used, self.dead = len(kept), 0
        self._changed = {int(moved[slot]) for slot in self._changed} - {0}
        self._orders.clear()
        return moved

    def _reserve(self, size: int) -> None:
        held = len(self.memory)
        if size <= held:
            return
        grown = max(size, 2 * held)
        for name, kind in self._COLUMNS:
            column = np.zeros(grown, kind)
            column[: self.used] = getattr(self, name)[: self.used]
            setattr(self, name, column)
        vectors = np.zeros((grown, self.dimension), np.float32)
        vectors[: self.used] = self.vectors[: self.used]
        self.vectors = vectors

    def _key(self, slot: int) -> Key:
        return (
            int(self.date[slot]), int(self.id_high[slot]), int(self.id_low[slot]), int(self.number[slot]), slot,
        )  # fmt: skip

    def _order(self, session: int) -> list[Key]:
        """The session's passages in order; made on first use, since most sessions never change again."""
        order = self._orders.get(session)
        if order is None:
            n = self.used
            slots = np.flatnonzero(self.alive[:n] & (self.session[:n] == session))
            order = self._orders[session] = sorted(self._key(slot) for slot in slots.tolist())
        return order

    def _link(self, slots: range) -> None:
        session = int(self.session[slots.start])
        left = right = 0
        if session != NO_SESSION:
            order = self._order(session)
            at = bisect_left(order, self._key(slots.start))
            left = order[at - 1][-1] if at else 0
            right = order[at][-1] if at < len(order) else 0
            for slot in slots:
                insort(order, self._key(slot))
        self._join([left, *slots, right])

    def _unlink(self, slots: range) -> None:
        left, right = int(self.previous[slots.start]), int(self.following[slots.stop - 1])
        session = int(self.session[slots.start])
        if session != NO_SESSION:
            order = self._order(session)
            at = bisect_left(order, self._key(slots.start))
            del order[at : at + len(slots)]
        self._join([left, right])

    def _join(self, chain: Sequence[int]) -> None:
        for one, next_one in pairwise(chain):
            if one:
                self.following[one] = next_one
            if next_one:
                self.previous[next_one] = one
        for slot in chain[1:]:
            self._touch(slot)

    def _touch(self, slot: int) -> None:
        """Note that the products of this slot and of the two after it are stale."""
        for _ in range(3):
            if not slot:
                return
            self._changed.add(slot)
            slot = int(self.following[slot])
