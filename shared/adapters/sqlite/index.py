"""The search index of the embedded back end: passages in the vault's file, ranked from memory.

What is on disk is the index; what is in memory is read from it on a vault's first search and then follows every
change, each of them written to disk first.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from shared.adapters.sqlite.files import VaultFiles
from shared.adapters.sqlite.resident import ResidentIndex
from shared.adapters.sqlite.rows import Row, in_chunks, marks, to_bytes, to_id
from shared.domain.memory import Memory, VaultRef
from shared.ports.search import Filters, Hit, IndexStatus, Passage, Vector
from shared.retrieval.chunks import chunks, embedded_text
from shared.retrieval.indexed import IndexedPassage, QuerySignals, counted_words
from shared.retrieval.ranking import rank
from shared.retrieval.tokens import tokens

DISK_VECTOR = np.dtype("<f2")
DISK_TERM = np.dtype("<i4")
DISK_COUNT = np.dtype("<u2")
ALL_TIERS = frozenset((1, 2, 3))
# Once so many stems of a vault have their numbers in memory, at some 150 bytes each, it begins anew.
KEPT_TERMS = 20_000


class _Slot:
    """One vault's place: the lock that orders changes to it, and its index once it was read."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.index: ResidentIndex | None = None
        self._terms: dict[str, int] = {}

    @contextmanager
    def numbering(self) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
        """Stems and their numbers as far as they are in memory, and a place for those that a write adds.

        Numbers on disk never change. If the write fails, what it added is forgotten.
        """
        if len(self._terms) > KEPT_TERMS:
            self._terms.clear()
        added: dict[str, int] = {}
        try:
            yield self._terms, added
        except BaseException:
            for stem in added:
                self._terms.pop(stem, None)
            raise


class SqliteIndex:
    """`shared.ports.search.SearchIndex`.

    Holds the most recently searched vaults in memory, up to `limit_bytes` in all; a single vault above the limit is
    still searched, alone. `dimension` tells the length of a vault's vectors.
    """

    def __init__(self, files: VaultFiles, dimension: Callable[[VaultRef], int], limit_bytes: int) -> None:
        self._files = files
        self._dimension = dimension
        self._limit_bytes = limit_bytes
        self._slots: OrderedDict[VaultRef, _Slot] = OrderedDict()
        self._lock = threading.Lock()

    def put_words(self, vault: VaultRef, memories: Sequence[Memory]) -> None:
        if not memories:
            return
        cut = [
            (memory, number, *counted_words(memory.role, memory.date_ms, part))
            for memory in memories
            for number, part in enumerate(chunks(memory.text))
        ]
        slot = self._slot(vault)
        with slot.lock, slot.numbering() as (number, added):
            with self._files.database(vault).write(durable=False) as connection:
                here = _indexed(connection, memories)
                cut = [each for each in cut if each[0].id not in here]
                added.update(_intern(connection, set().union(*(stems for _, _, stems, _ in cut)).difference(number)))
                number.update(added)
                terms = [np.fromiter(map(number.__getitem__, stems), DISK_TERM, len(stems)) for _, _, stems, _ in cut]
                connection.executemany(
                    "INSERT INTO passage (id, number, terms, counts) VALUES (?,?,?,?)",
                    [
                        (to_bytes(memory.id), place, numbers.tobytes(), counts.astype(DISK_COUNT, copy=False).tobytes())
                        for (memory, place, _, counts), numbers in zip(cut, terms, strict=True)
                    ],
                )
            if slot.index is not None:
                slot.index.learn(added.items())
                slot.index.add(
                    [
                        _passage(memory, place, numbers, counts)
                        for (memory, place, _, counts), numbers in zip(cut, terms, strict=True)
                    ]
                )

    def remove(self, vault: VaultRef, ids: Sequence[str]) -> None:
        if not ids:
            return
        slot = self._slot(vault)
        with slot.lock:
            with self._files.database(vault).write(durable=False) as connection:
                connection.executemany("DELETE FROM passage WHERE id = ?", [(to_bytes(name),) for name in ids])
            if slot.index is not None:
                slot.index.remove(ids)

    def without_vectors(self, vault: VaultRef, limit: int) -> tuple[Passage, ...]:
        with self._files.database(vault).read() as connection:
            rows = connection.execute(
                "SELECT p.id, p.number, m.role, m.date, m.text FROM passage p JOIN memory m ON m.id = p.id"
                " WHERE p.vector IS NULL ORDER BY p.seq LIMIT ?",
                (limit,),
            ).fetchall()
        return tuple(
            Passage(to_id(raw), number, embedded_text(role, date, chunks(text)[number]))
            for raw, number, role, date, text in rows
        )

    def put_vectors(self, vault: VaultRef, passages: Sequence[Passage], vectors: Vector) -> None:
        if not passages:
            return
        stored = vectors.astype(DISK_VECTOR)
        slot = self._slot(vault)
        with slot.lock:
            with self._files.database(vault).write(durable=False) as connection:
                connection.executemany(
                    "UPDATE passage SET vector = ? WHERE id = ? AND number = ?",
                    [
                        (vector.tobytes(), to_bytes(passage.memory_id), passage.number)
                        for passage, vector in zip(passages, stored, strict=True)
                    ],
                )
            if slot.index is not None and slot.index.dimension != stored.shape[1]:
                # It was read before the vault was bound to its model, and is read again when it is needed.
                slot.index = None
            if slot.index is not None:
                slot.index.set_vectors(
                    (passage.memory_id, passage.number, vector)
                    for passage, vector in zip(passages, stored, strict=True)
                )

    def search(
        self, vault: VaultRef, query: str, vector: Vector | None, noise: float, filters: Filters, limit: int
    ) -> tuple[Hit, ...]:
        signals = QuerySignals(tuple(tokens(query)), vector, noise)
        found = self._resident(vault).candidates(signals, filters)
        blended = filters.tiers >= ALL_TIERS
        return tuple(Hit(row.memory_id, row.tier, row.score, row.matched) for row in rank(found, limit, blended))

    def status(self, vault: VaultRef) -> IndexStatus:
        with self._files.database(vault).read() as connection:
            passages, waiting = connection.execute(
                "SELECT (SELECT COUNT(*) FROM passage), (SELECT COUNT(*) FROM passage WHERE vector IS NULL)"
            ).fetchone()
        return IndexStatus(passages, waiting)

    def _slot(self, vault: VaultRef) -> _Slot:
        with self._lock:
            slot = self._slots.get(vault)
            if slot is None:
                slot = self._slots[vault] = _Slot()
            self._slots.move_to_end(vault)
            return slot

    def _resident(self, vault: VaultRef) -> ResidentIndex:
        slot = self._slot(vault)
        with slot.lock:
            if slot.index is not None:
                return slot.index
            index = slot.index = self._read(vault)
        self._shrink(vault)
        return index

    def _shrink(self, keep: VaultRef) -> None:
        """Let go of the vaults searched longest ago, until the rest fits the limit."""
        with self._lock:
            held = [(vault, slot, slot.index) for vault, slot in self._slots.items()]
            used = sum(index.bytes_used() for _, _, index in held if index is not None)
            for vault, slot, index in held:
                if used <= self._limit_bytes:
                    return
                if vault == keep or index is None or not slot.lock.acquire(blocking=False):
                    continue
                used -= index.bytes_used()
                slot.index = None
                slot.lock.release()

    def _read(self, vault: VaultRef) -> ResidentIndex:
        with self._files.database(vault).read() as connection:
            terms = connection.execute("SELECT stem, id FROM term").fetchall()
            rows = connection.execute(
                "SELECT p.id, p.number, m.tier, m.role, m.session, m.date, m.importance, m.covers_from, m.covers_to,"
                " p.terms, p.counts, p.vector FROM passage p JOIN memory m ON m.id = p.id ORDER BY p.id, p.number"
            )
            return ResidentIndex.from_columns(self._dimension(vault), terms, _stored(rows))


def _stored(rows: Iterable[Row]) -> Iterator[IndexedPassage]:
    for raw, number, tier, role, session, date, importance, start, end, terms, counts, vector in rows:
        yield IndexedPassage(
            memory_id=to_id(raw),
            number=number,
            tier=tier,
            role=role,
            session=session,
            date_ms=date,
            importance=importance,
            covers_from=start,
            covers_to=end,
            terms=np.frombuffer(terms, DISK_TERM),
            counts=np.frombuffer(counts, DISK_COUNT),
            vector=None if vector is None else np.frombuffer(vector, DISK_VECTOR),
        )


def _passage(
    memory: Memory, number: int, terms: npt.NDArray[np.int32], counts: npt.NDArray[np.uint16]
) -> IndexedPassage:
    return IndexedPassage(
        memory_id=memory.id,
        number=number,
        tier=memory.tier,
        role=memory.role,
        session=memory.session_id,
        date_ms=memory.date_ms,
        importance=memory.importance,
        covers_from=None if memory.covers is None else memory.covers.from_ms,
        covers_to=None if memory.covers is None else memory.covers.to_ms,
        terms=terms,
        counts=counts,
    )


def _indexed(connection: sqlite3.Connection, memories: Sequence[Memory]) -> frozenset[str]:
    """Which of the memories are in the index."""
    found: set[str] = set()
    for chunk in in_chunks(to_bytes(memory.id) for memory in memories):
        rows = connection.execute(f"SELECT id FROM passage WHERE number = 0 AND id IN ({marks(len(chunk))})", chunk)
        found.update(to_id(raw) for (raw,) in rows)
    return frozenset(found)


def _intern(connection: sqlite3.Connection, stems: set[str]) -> dict[str, int]:
    """The number of every stem in this vault, giving one to those that are new."""
    ids: dict[str, int] = {}

    def look_up(wanted: Iterable[str]) -> None:
        for chunk in in_chunks(wanted):
            ids.update(connection.execute(f"SELECT stem, id FROM term WHERE stem IN ({marks(len(chunk))})", chunk))

    look_up(sorted(stems))
    new = sorted(stems - ids.keys())
    if new:
        connection.executemany("INSERT INTO term (stem) VALUES (?)", [(stem,) for stem in new])
        look_up(new)
    return ids
