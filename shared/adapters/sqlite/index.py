"""The search index of the embedded back end: passages in the vault's file, ranked from memory.

What is on disk is the index; what is in memory is read from it on a vault's first search and then follows every
change, each of them written to disk first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, filterfalse, islice

import numpy as np
import numpy.typing as npt

from shared.adapters.sqlite.files import VaultFiles
from shared.adapters.sqlite.resident import ResidentIndex
from shared.adapters.sqlite.rows import Row, in_chunks, marks, to_bytes, to_id
from shared.adapters.sqlite.slots import Slots
from shared.domain.memory import Memory, VaultRef
from shared.ports.search import Filters, Hit, IndexStatus, Passage, Query, Repaired, Vector
from shared.retrieval.chunks import chunks, embedded_text
from shared.retrieval.indexed import COUNT, TERM, IndexedPassage, QuerySignals, counted_words, passage_words
from shared.retrieval.ranking import rank
from shared.retrieval.tokens import asked_stems

DISK_VECTOR = np.dtype("<f2")
ALL_TIERS = frozenset((1, 2, 3))
WALKED_AT_ONCE = 1_000


class SqliteIndex:
    """`shared.ports.search.SearchIndex`.

    Holds the most recently searched vaults in memory, up to `limit_bytes` in all; a single vault above the limit is
    still searched, alone. `dimension` tells the length of a vault's vectors.
    """

    def __init__(self, files: VaultFiles, dimension: Callable[[VaultRef], int], limit_bytes: int) -> None:
        self._files = files
        self._dimension = dimension
        self._slots = Slots(limit_bytes)

    @property
    def bytes_used(self) -> int:
        """Memory that the vaults take, each as of its last use."""
        return self._slots.bytes_used

    @property
    def resident(self) -> int:
        """How many vaults have their place in memory."""
        return len(self._slots)

    def put_words(self, vault: VaultRef, memories: Sequence[Memory]) -> None:
        if not memories:
            return
        raws = [to_bytes(memory.id) for memory in memories]
        cut = [
            (memory, raw, place, passage_words(memory.role, memory.date_ms, part))
            for memory, raw in zip(memories, raws, strict=True)
            for place, part in enumerate(chunks(memory.text))
        ]
        with self._slots.held(vault) as slot, slot.numbering() as (number, added):
            with self._files.database(vault).write(durable=False) as connection:
                missing = _missing(connection, raws)
                cut = [each for each in cut if each[1] in missing]
                words = [each for _, _, _, each in cut]
                stems = chain.from_iterable(chain.from_iterable(words))
                added.update(_intern(connection, set(filterfalse(number.__contains__, stems)), len(number)))
                number.update(added)
                counted = counted_words(words, number)
                connection.executemany(
                    "INSERT INTO passage (id, number, terms, counts) VALUES (?,?,?,?)",
                    [
                        (raw, place, terms.tobytes(), counts.tobytes())
                        for (_, raw, place, _), (terms, counts) in zip(cut, counted, strict=True)
                    ],
                )
            with slot.following() as index:
                if index is not None:
                    index.learn(added.items())
                    index.add(
                        [
                            _passage(memory, place, terms, counts)
                            for (memory, _, place, _), (terms, counts) in zip(cut, counted, strict=True)
                        ]
                    )

    def remove(self, vault: VaultRef, ids: Sequence[str]) -> None:
        if not ids:
            return
        with self._slots.held(vault) as slot:
            with self._files.database(vault).write(durable=False) as connection:
                removed = [
                    terms
                    for name in ids
                    for (terms,) in connection.execute(
                        "DELETE FROM passage WHERE id = ? RETURNING terms", (to_bytes(name),)
                    ).fetchall()
                ]
                held = np.unique(np.frombuffer(b"".join(removed), TERM))
                unused = _unused(connection, held) if slot.index is None else slot.index.unused(held, without=ids)
                stems = _drop_terms(connection, unused.tolist())
                # Before the end of the write: a number that is missing in memory is looked up, a stale one is not.
                slot.forget(stems)
            with slot.following() as index:
                if index is not None:
                    index.remove(ids)
                    index.forget(stems)

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
        with self._slots.held(vault) as slot:
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
            with slot.following() as index:
                if index is not None:
                    index.set_vectors(
                        (passage.memory_id, passage.number, vector)
                        for passage, vector in zip(passages, stored, strict=True)
                    )

    def search(self, vault: VaultRef, query: Query, filters: Filters, limit: int) -> tuple[Hit, ...]:
        signals = QuerySignals(
            asked_stems(query.text), query.vector, query.noise, query.nearness, query.periods, query.text
        )
        found = self._resident(vault).candidates(signals, filters)
        blended = filters.tiers >= ALL_TIERS
        return tuple(Hit(row.memory_id, row.tier, row.score, row.matched) for row in rank(found, limit, blended))

    def status(self, vault: VaultRef) -> IndexStatus:
        with self._files.database(vault).read() as connection:
            passages, waiting = connection.execute(
                "SELECT (SELECT COUNT(*) FROM passage), (SELECT COUNT(*) FROM passage WHERE vector IS NULL)"
            ).fetchone()
        return IndexStatus(passages, waiting)

    def waiting(self, limit: int) -> tuple[VaultRef, ...]:
        found = (vault for vault in self._files.dirty() if self.without_vectors(vault, 1))
        return tuple(islice(found, limit))

    def purge(self, vault_id: str, below_epoch: int) -> None:
        """Nothing to do: the index goes with the vault's file."""

    def listed(self, vault: VaultRef) -> Iterator[str]:
        last = b""
        while True:
            with self._files.database(vault).read() as connection:
                page = connection.execute(
                    "SELECT DISTINCT id FROM passage WHERE id > ? ORDER BY id LIMIT ?", (last, WALKED_AT_ONCE)
                ).fetchall()
            if not page:
                return
            yield from (to_id(raw) for (raw,) in page)
            last = page[-1][0]

    def repair(self, vault: VaultRef, memories: Sequence[Memory]) -> Repaired:
        """No row is ever stale here: a passage is written once, with its row, and found through it."""
        with self._files.database(vault).read() as connection:
            missing = _missing(connection, [to_bytes(memory.id) for memory in memories])
        lacking = [memory for memory in memories if to_bytes(memory.id) in missing]
        self.put_words(vault, lacking)
        return Repaired(frozenset(memory.id for memory in lacking), frozenset())

    def _resident(self, vault: VaultRef) -> ResidentIndex:
        with self._slots.held(vault) as slot:
            if slot.index is None:
                slot.index = self._read(vault)
            return slot.index

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
            terms=np.frombuffer(terms, TERM),
            counts=np.frombuffer(counts, COUNT),
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


def _missing(connection: sqlite3.Connection, raws: Sequence[bytes]) -> set[bytes]:
    """Which of the memories are in the store and not in the index."""
    found: set[bytes] = set()
    for chunk in in_chunks(raws):
        rows = connection.execute(
            f"SELECT m.id FROM memory m WHERE m.id IN ({marks(len(chunk))})"
            " AND NOT EXISTS (SELECT 1 FROM passage p WHERE p.id = m.id AND p.number = 0)",
            chunk,
        )
        found.update(raw for (raw,) in rows)
    return found


def _intern(connection: sqlite3.Connection, stems: set[str], others: int) -> dict[str, int]:
    """The number of every stem in this vault, giving one to those that are new.

    `others` is how many terms of the vault are known to be none of these.
    """
    ids: dict[str, int] = {}
    stored, last = connection.execute("SELECT terms, last_term FROM vault").fetchone()
    if stored > others:
        for chunk in in_chunks(sorted(stems)):
            ids.update(connection.execute(f"SELECT stem, id FROM term WHERE stem IN ({marks(len(chunk))})", chunk))
    new = sorted(stems - ids.keys())
    if new:
        numbered = list(zip(new, count(last + 1)))
        connection.executemany("INSERT INTO term (stem, id) VALUES (?,?)", numbered)
        connection.execute("UPDATE vault SET terms = terms + ?1, last_term = last_term + ?1", (len(new),))
        ids.update(numbered)
    return ids


def _unused(connection: sqlite3.Connection, terms: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Those of the terms that no passage holds, after a walk over the passages that ends once all are met."""
    if not len(terms):
        return terms
    met = np.zeros(int(np.max(terms)) + 1, np.bool_)
    passages = connection.execute("SELECT terms FROM passage")
    while (page := passages.fetchmany(WALKED_AT_ONCE)) and not met[terms].all():
        held = np.frombuffer(b"".join(blob for (blob,) in page), TERM)
        met[held[held < len(met)]] = True
    return terms[~met[terms]]


def _drop_terms(connection: sqlite3.Connection, terms: Sequence[int]) -> list[str]:
    """Forget terms that no passage holds; returns their stems."""
    stems: list[str] = []
    for chunk in in_chunks(terms):
        rows = connection.execute(f"DELETE FROM term WHERE id IN ({marks(len(chunk))}) RETURNING stem", chunk)
        stems += [stem for (stem,) in rows.fetchall()]
    connection.execute("UPDATE vault SET terms = terms - ?", (len(stems),))
    return stems
