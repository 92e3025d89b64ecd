"""What an index takes in, and what it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from shared.retrieval.chunks import embedded_text
from shared.retrieval.tokens import tokens

Floats = npt.NDArray[np.float32]

HEADING_ONLY = 0x8000
"""Set in a count when the term stands in the passage's role or date but not in its own text."""
MAX_COUNT = 0x7FFF
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class IndexedPassage:
    """One passage with its words. `terms` are distinct ids, `counts` as `counted_words` gives them.

    `vector` has unit length, or is None while it is missing. `covers_*` are None on raw rows, as is `importance`.
    """

    memory_id: str
    number: int
    tier: int
    role: str
    session: str | None
    date_ms: int
    importance: int | None
    covers_from: int | None
    covers_to: int | None
    terms: npt.NDArray[np.int32]
    counts: npt.NDArray[np.uint16]
    vector: npt.NDArray[np.float16] | Floats | None = None


@dataclass(frozen=True, slots=True)
class QuerySignals:
    """A query as `tokens` cuts it, its unit vector if a model could answer, and the model's noise level."""

    tokens: tuple[str, ...]
    vector: Floats | None = None
    noise: float = 1.0


def counted_words(role: str, date_ms: int, passage: str) -> tuple[list[str], npt.NDArray[np.uint16]]:
    """Distinct stems of ``role (date): text`` and their counts, `HEADING_ONLY` set on those that the text lacks.

    Role and date help to rank; only the text's own words make a row match.
    """
    counted = Counter(tokens(passage))
    for stem, count in _heading(role, date_ms // DAY_MS):
        own = counted.get(stem)
        counted[stem] = count | HEADING_ONLY if own is None else min(own + count, MAX_COUNT)
    return list(counted), np.fromiter(counted.values(), np.uint16, len(counted))


@lru_cache(maxsize=4_096)
def _heading(role: str, day: int) -> tuple[tuple[str, int], ...]:
    words = Counter(tokens(embedded_text(role, day * DAY_MS, "")))
    return tuple((stem, min(count, MAX_COUNT)) for stem, count in words.items())


def unit(vector: npt.NDArray[np.float16] | Floats) -> Floats:
    """The vector at the precision it is stored with, at unit length: the same before and after a restart."""
    rounded = vector.astype(np.float16).astype(np.float32)
    length = np.float32(np.sqrt(rounded @ rounded))
    scaled: Floats = rounded / length if length > 0 else rounded
    return scaled


def by_memory(passages: Iterable[IndexedPassage]) -> Iterable[list[IndexedPassage]]:
    group: list[IndexedPassage] = []
    for passage in passages:
        if group and passage.memory_id != group[0].memory_id:
            yield group
            group = []
        group.append(passage)
    if group:
        yield group
