"""Word scores in three fields: a passage's own words, with its neighbours' in the session, with two on either side.

BM25 (Robertson and Zaragoza 2009, the variant whose idf never turns negative) with constant average lengths, so that a
row's weight does not move with the lengths of others. Document frequencies are the vault's own.
"""

from __future__ import annotations

from collections.abc import Iterable

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


def length_norms(table: PassageTable) -> tuple[Floats, Floats, Floats]:
    """The denominators' constant part, one array for each field."""
    n = table.used
    before, after = table.previous[:n], table.following[:n]
    own = table.length[:n].astype(np.float32)
    near = own + own[before] + own[after]
    wide = near + own[before[before]] + own[after[after]]
    own_norm, near_norm, wide_norm = (
        (K1 * (1 - B + B * length / average)).astype(np.float32)
        for length, average in zip((own, near, wide), AVERAGE_LENGTHS, strict=True)
    )
    return own_norm, near_norm, wide_norm


def word_scores(
    table: PassageTable, postings: Postings, terms: Iterable[int], norms: tuple[Floats, Floats, Floats]
) -> tuple[Floats, Bools]:
    """For every slot the mean of its three saturated field scores, in 0..1, and whether its own text holds a term."""
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
            idf = np.float32(np.log1p((population - frequency + 0.5) / (frequency + 0.5)))
            times = found[touched]
            # A place met twice gets the same value twice.
            total = sums[number]
            total[touched] = total[touched] + idf * (K1 + 1) * times / (times + norms[number][touched])
    saturated = [total / (total + np.float32(SATURATION)) for total in sums]
    scores: Floats = ((saturated[0] + saturated[1] + saturated[2]) / np.float32(3)).astype(np.float32)
    return scores, matched
