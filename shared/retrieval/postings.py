"""Which passages hold a term, and how often. Slots are positions in the passage table that owns these postings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Slots = npt.NDArray[np.int32]
Counts = npt.NDArray[np.uint16]


class Postings:
    """Sorted arrays for what was there at the last merge, small lists per term for what came since.

    Removal is the owner's business: it masks dead slots on reading and drops them with `merge`.
    """

    MERGE_AT = 100_000

    def __init__(self) -> None:
        self._starts: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        self._slots: Slots = np.zeros(0, np.int32)
        self._counts: Counts = np.zeros(0, np.uint16)
        self._recent: dict[int, tuple[list[int], list[int]]] = {}
        self._recent_size = 0

    def add(self, slot: int, terms: npt.NDArray[np.int32], counts: Counts) -> None:
        """Enter one passage; `terms` are distinct."""
        for term, count in zip(terms.tolist(), counts.tolist(), strict=True):
            lists = self._recent.get(term)
            if lists is None:
                lists = self._recent[term] = ([], [])
            lists[0].append(slot)
            lists[1].append(count)
        self._recent_size += len(terms)

    def of(self, term: int) -> tuple[Slots, Counts]:
        """Slots that hold the term, dead ones included, each once, and the counts there."""
        if term + 1 < len(self._starts):
            part = slice(self._starts[term], self._starts[term + 1])
            slots, counts = self._slots[part], self._counts[part]
        else:
            slots, counts = self._slots[:0], self._counts[:0]
        recent = self._recent.get(term)
        if recent is None:
            return slots, counts
        return (
            np.concatenate((slots, np.array(recent[0], np.int32))),
            np.concatenate((counts, np.array(recent[1], np.uint16))),
        )

    def load(self, terms: npt.NDArray[np.int32], slots: Slots, counts: Counts) -> None:
        """Replace everything by the given postings, in any order."""
        order = np.argsort(terms, kind="stable")
        size = int(np.max(terms)) + 1 if len(terms) else 0
        self._starts = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(terms, minlength=size), out=self._starts[1:])
        self._slots, self._counts = slots[order], counts[order]
        self._recent, self._recent_size = {}, 0

    def merge_due(self) -> bool:
        return self._recent_size > max(self.MERGE_AT, len(self._slots) // 8)

    def merge(self, moved: Slots) -> None:
        """Fold recent postings into the arrays. `moved[slot]` is the slot's new place, 0 where it is dead."""
        parts_t = [np.repeat(np.arange(len(self._starts) - 1, dtype=np.int32), np.diff(self._starts))]
        parts_s, parts_c = [self._slots], [self._counts]
        for term, (slots, counts) in self._recent.items():
            parts_t.append(np.full(len(slots), term, np.int32))
            parts_s.append(np.array(slots, np.int32))
            parts_c.append(np.array(counts, np.uint16))
        places = moved[np.concatenate(parts_s)]
        live = places != 0
        self.load(np.concatenate(parts_t)[live], places[live], np.concatenate(parts_c)[live])

    def bytes_used(self) -> int:
        """Memory held, the recent lists estimated."""
        return self._starts.nbytes + self._slots.nbytes + self._counts.nbytes + 80 * self._recent_size
