"""From the signals of every visible passage to an ordered list of memories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shared.retrieval.blend import blend

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

OWN_SHARE = 0.3
"""Of nearness: the passage's own. The rest is that of the passage together with its neighbours."""
SESSION_WEIGHT = 0.7
SPEAKER_WEIGHT = 0.1
PERIOD_WEIGHT = 0.15
PRIOR_DEPTH = 500
"""Passages, best first, from which sessions are judged: fixed, so that no order depends on a limit."""
SESSION_BEST = 3


@dataclass(frozen=True, slots=True)
class Candidates:
    """Signals of the passages that passed the filters; arrays of one length, one entry a passage.

    * `words` in 0..1. `own` and `context` are cosines, None without a query vector; where `has_vector` is false they
      mean nothing.
    * `session` is a code of 0 or more, or -1. `speaks` marks passages by the one speaker whom the query names, None
      when it names none or several. `within` marks those of the periods that it names, None when it names none.
    * `nearness` is the weight of the cosines beside the words, 0..1.
    * `memory` numbers the memory of each passage: a position in `tier`, `date`, `id_high` and `id_low`, which describe
      memories and may be longer. Ids are the two halves of a UUID.
    * `session_sizes` counts the visible passages of each session by its code. It is needed only when some of them are
      left out here because they cannot be among the best.
    """

    memory: Ints
    words: Floats
    matched: Bools
    session: Ints
    has_vector: Bools
    own: Floats | None
    context: Floats | None
    speaks: Bools | None
    tier: npt.NDArray[np.int8]
    date: npt.NDArray[np.int64]
    id_high: npt.NDArray[np.uint64]
    id_low: npt.NDArray[np.uint64]
    session_sizes: Ints | None = None
    within: Bools | None = None
    nearness: float = 0.5


@dataclass(frozen=True, slots=True)
class Ranked:
    """One memory. `matched` says whether it is relevant or merely the nearest of the rest."""

    memory_id: str
    score: float
    matched: bool
    tier: int


def base_scores(found: Candidates) -> Doubles:
    """Nearness and words, weighted; words alone where there is no vector."""
    words = found.words.astype(np.float64)
    if found.own is None or found.context is None:
        return words
    near = OWN_SHARE * np.clip(found.own, 0.0, 1.0) + (1.0 - OWN_SHARE) * np.clip(found.context, 0.0, 1.0)
    fused = found.nearness * near + (1.0 - found.nearness) * words
    mixed: Doubles = np.where(found.has_vector, fused, words)
    return mixed


def session_priors(base: Doubles, session: Ints, known_sizes: Ints | None = None) -> Doubles:
    """The mean of the three best scores of each passage's session, of which `known_sizes` may count more than are here.

    Below the fixed depth a score counts as the lowest inside it. A passage without a session is a session of its own.
    """
    priors = base.copy()
    inside = session >= 0
    if not inside.any():
        return priors
    scores, codes = base[inside], session[inside]
    sizes = np.bincount(codes)
    if known_sizes is not None:
        sizes = np.maximum(sizes, known_sizes[: len(sizes)])
    depth = min(PRIOR_DEPTH, len(scores))
    floor = float(np.partition(scores, len(scores) - depth)[len(scores) - depth])
    top = scores >= floor
    order = np.lexsort((-scores[top], codes[top]))
    best, owner = scores[top][order], codes[top][order]
    starts = np.flatnonzero(np.concatenate((np.ones(1, np.bool_), owner[1:] != owner[:-1])))
    place = np.arange(len(owner)) - np.repeat(starts, np.diff(np.append(starts, len(owner))))
    wanted = np.minimum(sizes, SESSION_BEST)
    leading = place < SESSION_BEST
    sums = np.bincount(owner[leading], best[leading], len(sizes))
    counts = np.bincount(owner[leading], minlength=len(sizes))
    means = (sums + (wanted - counts) * floor) / np.maximum(wanted, 1)
    priors[inside] = means[codes]
    return priors


def passage_scores(found: Candidates) -> Doubles:
    """Every passage's score in 0..1: the weighted sum by the sum of the weights in force."""
    base = base_scores(found)
    total = base + SESSION_WEIGHT * session_priors(base, found.session, found.session_sizes)
    weights = 1.0 + SESSION_WEIGHT
    for weight, favoured in ((SPEAKER_WEIGHT, found.speaks), (PERIOD_WEIGHT, found.within)):
        if favoured is not None:
            total = total + weight * favoured
            weights += weight
    return np.clip(total / weights, 0.0, 1.0)


def rank(found: Candidates, limit: int, tiers_default: bool) -> list[Ranked]:
    """The `limit` best memories, scores never rising, the order the same for every limit.

    A memory scores as its best passage. Those that match come first; the nearest others follow and never score above
    them. Ties go to the newer, then to the smaller id. `tiers_default` asks for the blend of tiers.
    """
    if not len(found.memory) or limit < 1:
        return []
    best = np.full(len(found.tier), -1.0)
    np.maximum.at(best, found.memory, passage_scores(found))
    # Rows that differ in the last bits only tie: the sum below would not tell them apart.
    best = np.round(best, 12)
    hit = np.zeros(len(found.tier), np.bool_)
    hit[found.memory[found.matched]] = True
    # Scores end at 1: two more puts every match before every other row.
    key = np.where(hit, best + 2.0, best)
    rows = np.flatnonzero(best >= 0.0)
    if hit.any():
        best[~hit] = np.minimum(best[~hit], best[hit].min())
    order = _leading(found, key, rows, limit)
    if tiers_default:
        kinds = found.tier[rows]
        leaders = [_leading(found, key, rows[(kinds == tier) & hit[rows]], 1) for tier in (1, 2, 3)]
        chosen = {int(row[0]) for row in leaders if len(row)}
        leading = sorted(chosen, key=lambda row: _place(found, key, row))
        placed = blend([int(row) for row in order], leading, best, limit)
    else:
        placed = [(int(row), float(best[row])) for row in order]
    return [Ranked(_uuid(found, row), float(score), bool(hit[row]), int(found.tier[row])) for row, score in placed]


def _place(found: Candidates, key: Doubles, row: int) -> tuple[float, int, int, int]:
    return -float(key[row]), -int(found.date[row]), int(found.id_high[row]), int(found.id_low[row])


def _leading(found: Candidates, key: Doubles, rows: npt.NDArray[np.intp], limit: int) -> npt.NDArray[np.intp]:
    """The first `limit` of `rows`; every row that ties with the last is weighed before the cut."""
    if len(rows) > limit:
        keys = key[rows]
        rows = rows[keys >= np.partition(keys, len(keys) - limit)[len(keys) - limit]]
    order = np.lexsort((found.id_low[rows], found.id_high[rows], -found.date[rows], -key[rows]))
    return rows[order[:limit]]


def _uuid(found: Candidates, row: int) -> str:
    high, low = f"{int(found.id_high[row]):016x}", f"{int(found.id_low[row]):016x}"
    return f"{high[:8]}-{high[8:12]}-{high[12:]}-{low[:4]}-{low[4:]}"
