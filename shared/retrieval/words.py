"""Word scores in three fields: a passage's own words, with its neighbours' in the session, with two on either side.

BM25 (Robertson and Zaragoza 2009, the variant whose idf never turns negative) with constant average lengths, so that a
row's weight does not move with the lengths of others. Document frequencies are the vault's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from shared.retrieval.indexed import HEADING_ONLY, MAX_COUNT
from shared.retrieval.passages import Bools, PassageTable
from shared.retrieval.postings import Postings

Floats = npt.NDArray[np.float32]

K1 = 1.2
B = 0.75
AVERAGE_LENGTHS = (25.0, 75.0, 125.0)
SATURATION = 10.0
"""BM25 at which a field's score is one half."""
FIELD_WEIGHTS = (0.3, 0.35, 0.35)


def length_norms(table: PassageTable) -> tuple[Floats, Floats, Floats]:
    """The denominators' constant part, one array for each field."""
    n = table.used
    before, after = table.previous[:n], table.following[:n]
    own = table.length[:n].astype(np.float32)
    near = own + own[before] + own[after]
    wide = near + own[before[before]] + own[after[after]]
    own_norm, near_norm, wide_norm = (
        length_norm(length, average) for length, average in zip((own, near, wide), AVERAGE_LENGTHS, strict=True)
    )
    return own_norm, near_norm, wide_norm


def word_scores(
    table: PassageTable, postings: Postings, terms: Iterable[int], norms: tuple[Floats, Floats, Floats]
) -> tuple[Floats, Bools]:
    """For every slot the weighted mean of its saturated scores, in 0..1, and whether it or a neighbour holds a term."""
    n = table.used
    population = max(1, int(np.count_nonzero(table.alive[:n])))
    sums = tuple(np.zeros(n, np.float32) for _ in norms)
    matched = np.zeros(n, np.bool_)
    for term in terms:
        slots, counts = postings.of(term)
        here = table.alive[slots]
        slots, counts = slots[here], counts[here]
        if not len(slots):
            continue
        own = (counts & MAX_COUNT).astype(np.float32)
        matched[slots[counts < HEADING_ONLY]] = True
        before, after = table.previous[slots], table.following[slots]
        rings = ((slots,), (before, after), (table.previous[before], table.following[after]))
        found = np.zeros(n, np.float32)
        touched = slots[:0]
        for number, ring in enumerate(rings):
            for reached in ring:
                # No two slots have the same neighbour on one side, so no place is met twice, but for that of nobody.
                found[reached] += own
                found[0] = 0.0
            touched = np.concatenate((touched, *ring))
            frequency = int(np.count_nonzero(found))
            idf = rarity(population, frequency)
            times = found[touched]
            # A place met twice gets the same value twice.
            total = sums[number]
            total[touched] = total[touched] + part(idf, times, norms[number][touched])
    return mean_of_fields(sums), beside(table, matched) & table.alive[:n]


def beside(table: PassageTable, matched: Bools) -> Bools:
    """The matching passages and their neighbours: "At seven." says little without "When do we eat?"."""
    n = table.used
    near: Bools = matched | matched[table.previous[:n]] | matched[table.following[:n]]
    return near


def rarity(population: int, frequency: int) -> np.float32:
    """The weight of a term that `frequency` of `population` passages hold in one field."""
    return np.float32(np.log1p((population - frequency + 0.5) / (frequency + 0.5)))


def length_norm(length: Floats, average: float) -> Floats:
    return (K1 * (1 - B + B * length / average)).astype(np.float32)


def part(idf: np.float32, times: Floats, norm: Floats) -> Floats:
    """What one term adds to the score of one field."""
    added: Floats = idf * (K1 + 1) * times / (times + norm)
    return added


def mean_of_fields(sums: Sequence[Floats]) -> Floats:
    """In 0..1, from the sums of the three fields."""
    own, near, wide = (
        np.float32(weight) * (total / (total + np.float32(SATURATION)))
        for weight, total in zip(FIELD_WEIGHTS, sums, strict=True)
    )
    scores: Floats = (own + near + wide).astype(np.float32)
    return scores


def counted_scores(counts: Floats, lengths: Floats, frequencies: Sequence[Sequence[int]], population: int) -> Floats:
    """The same scores from counts that were made elsewhere, row by row the same to the last bit.

    `counts` has the shape (field, term, passage), `lengths` (field, passage); `frequencies` are by field and term, as
    they are in the whole vault. Terms come in the order of their stems.
    """
    sums = [np.zeros(counts.shape[2], np.float32) for _ in AVERAGE_LENGTHS]
    for field, average in enumerate(AVERAGE_LENGTHS):
        norm = length_norm(lengths[field], average)
        for term, frequency in enumerate(frequencies[field]):
            sums[field] = sums[field] + part(rarity(population, frequency), counts[field, term], norm)
    return mean_of_fields(sums)
