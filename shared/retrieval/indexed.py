"""What an index takes in, and what it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from shared.domain.times import DAY_MS
from shared.domain.window import Window
from shared.retrieval.chunks import embedded_text
from shared.retrieval.tokens import tokens

Floats = npt.NDArray[np.float32]

TERM: np.dtype[np.int32] = np.dtype("<i4")
COUNT: np.dtype[np.uint16] = np.dtype("<u2")
"""Of terms and their counts, on disk too."""
HEADING_ONLY = 0x8000
"""Set in a count when the term stands in the passage's role or date but not in its own text."""
MAX_COUNT = 0x7FFF


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
    """A query as `tokens` cuts it, its unit vector if a model could answer, and how far to trust that model.

    `text` is the query itself, which tells what misspelt words may have meant.
    """

    tokens: tuple[str, ...]
    vector: Floats | None = None
    noise: float = 1.0
    nearness: float = 0.5
    periods: tuple[Window, ...] = ()
    text: str = ""


Words = tuple[tuple[str, ...], list[str]]
"""Stems of a passage's heading, ``role (date):``, and those of its text; in order, repeats included."""


def passage_words(role: str, date_ms: int, passage: str) -> Words:
    return _heading(role, date_ms // DAY_MS), tokens(passage)


def counted_words(
    passages: Sequence[Words], number: Mapping[str, int]
) -> list[tuple[npt.NDArray[np.int32], npt.NDArray[np.uint16]]]:
    """The distinct terms of every passage, ascending, and how often it holds each; `number` tells a stem's term.

    `HEADING_ONLY` is set in the counts of terms that the text itself lacks: role and date help to rank, only the
    text's own words make a row match.
    """
    # All passages at once: one sort brings the same words of the same passage together.
    headings, texts = [heading for heading, _ in passages], [text for _, text in passages]
    keys = np.concatenate((_keys(headings, number) | 1, _keys(texts, number)))
    keys.sort()
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[1:] >> 1 != keys[:-1] >> 1
    starts = np.flatnonzero(first)
    total = np.diff(starts, append=len(keys))
    in_heading = np.diff(np.cumsum(keys & 1)[starts + total - 1], prepend=0)
    counts = np.minimum(total, MAX_COUNT) | np.where(in_heading == total, HEADING_ONLY, 0)
    found = keys[starts] >> 1
    ends = np.searchsorted(found >> 32, np.arange(len(passages) + 1)).tolist()
    terms, short = (found & 0xFFFF_FFFF).astype(TERM), counts.astype(COUNT)
    return [(terms[start:end], short[start:end]) for start, end in pairwise(ends)]


def _keys(stems: Sequence[Sequence[str]], number: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """For every stem of every passage one number: the passage's place, the term, a free bit."""
    sizes = list(map(len, stems))
    terms = np.fromiter(map(number.__getitem__, chain.from_iterable(stems)), np.int64, sum(sizes))
    keys: npt.NDArray[np.int64] = np.repeat(np.arange(len(stems), dtype=np.int64) << 33, sizes) | terms << 1
    return keys


@lru_cache(maxsize=4_096)
def _heading(role: str, day: int) -> tuple[str, ...]:
    return tuple(tokens(embedded_text(role, day * DAY_MS, "")))


def unit(vectors: npt.NDArray[np.float16] | Floats) -> Floats:
    """Vectors, or one, at the precision they are stored with, at unit length: the same before and after a restart.

    One without a direction stays as it is.
    """
    rounded = vectors.astype(np.float16).astype(np.float32)
    products: Floats = np.vecdot(rounded, rounded)
    lengths: Floats = np.sqrt(products)[..., np.newaxis]
    scaled: Floats = (rounded / np.where(lengths > 0, lengths, np.float32(1))).astype(np.float32, copy=False)
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
