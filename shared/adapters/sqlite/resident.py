"""One vault's index in memory: passages, words and vectors, ready to be ranked. Where they are kept is unknown here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from threading import RLock
from uuid import UUID

import numpy as np
import numpy.typing as npt

from shared.domain.window import Window
from shared.ports.search import Filters
from shared.retrieval.function_words import asks_only_when, content_words
from shared.retrieval.indexed import HEADING_ONLY, MAX_COUNT, IndexedPassage, QuerySignals, by_memory, unit
from shared.retrieval.passages import NO_SESSION, Bools, Facts, Floats, PassageTable
from shared.retrieval.postings import Postings
from shared.retrieval.ranking import Candidates
from shared.retrieval.speakers import speaker_name
from shared.retrieval.spelling import candidates, corrected, doubted
from shared.retrieval.words import length_norms, word_scores

FILLED_AT_ONCE = 4_096
"""Passages whose vectors are held twice while an index is read."""


class ResidentIndex:
    """Every method is one step for all threads. Passages of one memory arrive together.

    Nothing of a removed row is left in any answer: neighbours close up, and all statistics are taken from live rows.
    """

    COMPACT_AT = 1_000

    def __init__(self, dimension: int, capacity: int = 64) -> None:
        self._lock = RLock()
        self._table = PassageTable(dimension, capacity)
        self._postings = Postings()
        self._terms: dict[str, int] = {}
        self._first: dict[bytes, int] = {}
        self._sessions: dict[str, int] = {}
        self._roles: dict[str, int] = {}
        self._speakers: dict[int, frozenset[str]] = {}
        self._norms: tuple[Floats, Floats, Floats] | None = None
        self._context_norm: Floats | None = None

    @classmethod
    def from_columns(
        cls, dimension: int, terms: Iterable[tuple[str, int]], passages: Iterable[IndexedPassage]
    ) -> ResidentIndex:
        """Build in bulk. `terms` are (stem, id); passages come by memory, each memory's in the order of `number`."""
        index = cls(dimension)
        index.learn(terms)
        index._fill(passages)
        return index

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return self._table.dimension

    # Words

    def learn(self, terms: Iterable[tuple[str, int]]) -> None:
        """(stem, id) pairs; without its pair a stem finds nothing."""
        with self._lock:
            self._terms.update(terms)

    def forget(self, stems: Iterable[str]) -> None:
        """Stems that no row holds any more. Their ids are not given to others."""
        with self._lock:
            for stem in stems:
                self._terms.pop(stem, None)

    def unused(self, terms: npt.NDArray[np.int32], without: Iterable[str]) -> npt.NDArray[np.int32]:
        """Those of the terms that no passage would hold without the memories named."""
        with self._lock:
            staying = self._table.alive.copy()
            for memory_id in without:
                first = self._first.get(_bytes(memory_id))
                if first is not None:
                    staying[list(self._table.slots_of(first))] = False
            held = [bool(staying[self._postings.of(term)[0]].any()) for term in terms.tolist()]
            return terms[~np.array(held, np.bool_)]

    # Rows

    def add(self, passages: Sequence[IndexedPassage]) -> None:
        """Enter memories whole; one that is there already is replaced."""
        with self._lock:
            for group in by_memory(passages):
                key = _bytes(group[0].memory_id)
                if key in self._first:
                    self._remove(key)
                first = self._table.append(self._facts(group[0], key), [_length(p) for p in group])
                self._first[key] = first
                for slot, passage in enumerate(group, first):
                    self._postings.add(slot, passage.terms, passage.counts)
                    if passage.vector is not None:
                        self._table.set_vector(slot, unit(passage.vector))
            self._settle()

    def set_vectors(self, vectors: Iterable[tuple[str, int, npt.NDArray[np.float16] | Floats]]) -> None:
        """(memory id, passage number, vector) each; passages that are gone are passed over."""
        with self._lock:
            for memory_id, number, vector in vectors:
                first = self._first.get(_bytes(memory_id))
                if first is not None and number < len(self._table.slots_of(first)):
                    self._table.set_vector(first + number, unit(vector))
            self._context_norm = None

    def remove(self, memory_ids: Iterable[str]) -> None:
        with self._lock:
            for memory_id in memory_ids:
                key = _bytes(memory_id)
                if key in self._first:
                    self._remove(key)
            self._settle()

    def __contains__(self, memory_id: str) -> bool:
        with self._lock:
            return _bytes(memory_id) in self._first

    def counts(self) -> tuple[int, int]:
        """(live passages, those of them without a vector)."""
        with self._lock:
            alive = self._table.alive[: self._table.used]
            with_vector = self._table.has_vector[: self._table.used]
            return int(np.count_nonzero(alive)), int(np.count_nonzero(alive & ~with_vector))

    def bytes_used(self) -> int:
        """Memory held by the index, dictionaries estimated."""
        with self._lock:
            names = 160 * (len(self._terms) + len(self._first) + len(self._sessions) + len(self._roles))
            return self._table.bytes_used() + self._postings.bytes_used() + names

    # Questions

    def candidates(
        self, query: QuerySignals, filters: Filters | None = None, exclude: Iterable[str] = ()
    ) -> Candidates:
        """The signals of every passage that the filters leave; statistics are those of the whole vault."""
        with self._lock:
            table = self._table
            n = table.used
            norms, context_norm = self._refreshed()
            slots = np.flatnonzero(self._visible(filters or Filters(), exclude))
            stems = frozenset(query.tokens)
            # By stem, and row by row below: sums come out the same to the last bit, whatever order rows arrived in.
            terms = [self._terms[stem] for stem in self._meant(content_words(stems), query.text) if stem in self._terms]
            words, matched = word_scores(table, self._postings, terms, norms)
            own = context = None
            if query.vector is not None and table.has_vector[:n].any():
                products = np.vecdot(table.vectors[:n], query.vector.astype(np.float32))
                around = products[table.previous[:n]] + products[table.following[:n]]
                mixed = products + np.float32(0.5) * around
                own, context = products[slots], (mixed / context_norm)[slots]
                matched |= products > query.noise
            speaker = self._speaker(stems)
            speaks = None if speaker is None else table.role[:n] == speaker
            if speaks is not None:
                # Who asks about one person asks about what that person said.
                matched |= speaks
            within = self._within(query.periods)
            if within is not None and asks_only_when(stems):
                matched |= within
            # Copies, so that what comes back does not change when rows do.
            return Candidates(
                memory=table.memory[slots],
                words=words[slots],
                matched=matched[slots],
                session=table.session[slots],
                has_vector=table.has_vector[slots],
                own=own,
                context=context,
                speaks=None if speaks is None else speaks[slots],
                within=None if within is None else within[slots],
                tier=table.tier[:n].copy(),
                date=table.date[:n].copy(),
                id_high=table.id_high[:n].copy(),
                id_low=table.id_low[:n].copy(),
                nearness=query.nearness,
            )

    def _meant(self, stems: frozenset[str], text: str) -> tuple[str, ...]:
        """The stems, and for those that the vault does not hold what they may have meant."""
        made = candidates(doubted(stem for stem in stems if not self._holds(stem)), text)
        return corrected(
            stems,
            {stem: [other for other in others if self._holds(other, in_text=True)] for stem, others in made.items()},
        )

    def _holds(self, stem: str, in_text: bool = False) -> bool:
        """Whether a live passage has the stem, in its own text if so wanted."""
        term = self._terms.get(stem)
        if term is None:
            return False
        slots, counts = self._postings.of(term)
        return bool((self._table.alive[slots] & (not in_text or counts < HEADING_ONLY)).any())

    def _visible(self, filters: Filters, exclude: Iterable[str]) -> Bools:
        table, n = self._table, self._table.used
        visible = table.alive[:n].copy()
        if filters.from_ms is not None and filters.to_ms is not None and filters.from_ms >= filters.to_ms:
            # Coverage around an empty window overlaps nothing.
            visible[:] = False
        if not filters.tiers >= {1, 2, 3}:
            visible &= np.isin(table.tier[:n], sorted(filters.tiers))
        if filters.min_importance is not None:
            visible &= (table.tier[:n] > 1) & (table.importance[:n] >= filters.min_importance)
        if filters.session_id is not None:
            session = table.session[:n]
            # A code that no row has, for a session that was never seen.
            visible &= (session == NO_SESSION) | (session == self._sessions.get(filters.session_id, NO_SESSION - 1))
        if filters.from_ms is not None:
            visible &= table.covers_to[:n] >= filters.from_ms
        if filters.to_ms is not None:
            visible &= table.covers_from[:n] < filters.to_ms
        for memory_id in exclude:
            first = self._first.get(_bytes(memory_id))
            if first is not None:
                visible[list(table.slots_of(first))] = False
        return visible

    def _refreshed(self) -> tuple[tuple[Floats, Floats, Floats], Floats]:
        table, n = self._table, self._table.used
        changed = table.refresh()
        if self._norms is None or changed:
            self._norms = length_norms(table)
        if self._context_norm is None or changed:
            before, after = table.previous[:n], table.following[:n]
            has = table.has_vector[:n].astype(np.float32)
            near, far = table.near[:n], table.far[:n]
            # The square of |own + previous / 2 + following / 2|, every vector of length 1 or missing.
            square = has + (has[before] + has[after]) / 4 + near + near[after] + far[after] / 2
            self._context_norm = np.sqrt(np.maximum(square, np.float32(1e-6)))
        return self._norms, self._context_norm

    def _speaker(self, stems: frozenset[str]) -> int | None:
        """The one role whose name is all in the query, or None; roles of removed rows do not count."""
        named = [code for code, name in self._speakers.items() if name <= stems]
        if not named:
            return None
        table, n = self._table, self._table.used
        alive = [code for code in named if bool((table.alive[:n] & (table.role[:n] == code)).any())]
        return alive[0] if len(alive) == 1 else None

    def _within(self, periods: Sequence[Window]) -> Bools | None:
        """Passages of rows that any of the periods touches; None without periods."""
        table, n = self._table, self._table.used
        touched = [
            (table.covers_to[:n] >= period.from_ms) & (table.covers_from[:n] < period.to_ms) for period in periods
        ]
        return np.logical_or.reduce(touched) if touched else None

    # Upkeep

    def _facts(self, passage: IndexedPassage, key: bytes) -> Facts:
        role = self._roles.setdefault(passage.role, len(self._roles))
        if role not in self._speakers and (name := speaker_name(passage.role, passage.tier)):
            self._speakers[role] = name
        session = NO_SESSION
        if passage.session is not None:
            session = self._sessions.setdefault(passage.session, len(self._sessions))
        return Facts(
            id=(int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big")),
            tier=passage.tier,
            importance=passage.importance or 0,
            date=passage.date_ms,
            covers_from=passage.date_ms if passage.covers_from is None else passage.covers_from,
            covers_to=passage.date_ms if passage.covers_to is None else passage.covers_to,
            session=session,
            role=role,
        )

    def _fill(self, passages: Iterable[IndexedPassage]) -> None:
        """Enter everything at once, column by column: row by row most of the time would go into single numbers."""
        terms, counts, sizes = [], [], []
        rows = iter(passages)
        while part := list(islice(rows, FILLED_AT_ONCE)):
            first = self._table.used
            facts = [self._facts(passage, _bytes(passage.memory_id)) for passage in part]
            said = [passage.counts for passage in part]
            size = np.fromiter(map(len, said), np.int64, len(part))
            every = np.concatenate(said)
            upto = np.concatenate((np.zeros(1, np.int64), np.cumsum(every & MAX_COUNT, dtype=np.int64)))
            ends = np.cumsum(size)
            numbers = [passage.number for passage in part]
            self._table.write(facts, numbers, upto[ends] - upto[ends - size])
            for slot, (fact, number) in enumerate(zip(facts, numbers, strict=True), first):
                if number == 0:
                    self._first[fact.id[0].to_bytes(8, "big") + fact.id[1].to_bytes(8, "big")] = slot
            vectors = {slot: passage.vector for slot, passage in enumerate(part, first) if passage.vector is not None}
            if vectors:
                slots = list(vectors)
                self._table.vectors[slots] = unit(np.array(list(vectors.values())))
                self._table.has_vector[slots] = True
            terms.append(np.concatenate([passage.terms for passage in part]))
            counts.append(every)
            sizes.append(size)
        if terms:
            self._table.link_all()
            where = np.repeat(np.arange(1, self._table.used, dtype=np.int32), np.concatenate(sizes))
            self._postings.load(np.concatenate(terms), where, np.concatenate(counts))

    def _remove(self, key: bytes) -> None:
        self._table.remove(self._first.pop(key))

    def _settle(self) -> None:
        self._norms = self._context_norm = None
        table = self._table
        if table.dead > self.COMPACT_AT and table.dead * 3 > table.used:
            moved = table.compact()
            self._postings.merge(moved)
            self._first = {key: int(moved[first]) for key, first in self._first.items()}
        elif self._postings.merge_due():
            self._postings.merge(np.where(table.alive, np.arange(len(table.alive)), 0).astype(np.int32))


def _length(passage: IndexedPassage) -> int:
    return int((passage.counts & MAX_COUNT).sum())


def _bytes(memory_id: str) -> bytes:
    return UUID(memory_id).bytes
