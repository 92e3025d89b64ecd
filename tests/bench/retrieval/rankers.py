"""The rankings that are compared: strata's own, and plain words or plain vectors over the same rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from itertools import count

import numpy as np
import numpy.typing as npt

from shared.adapters.sqlite.resident import ResidentIndex
from shared.ports.embedder import Embedder
from shared.retrieval.chunks import chunks, embedded_text
from shared.retrieval.function_words import FUNCTION_WORDS
from shared.retrieval.indexed import IndexedPassage, QuerySignals, counted_words, passage_words
from shared.retrieval.periods import periods
from shared.retrieval.ranking import rank
from shared.retrieval.tokens import tokens
from tests.bench.retrieval.corpus import Corpus, Line, Question

Vectors = npt.NDArray[np.float32]
Ranker = Callable[[Question, int], list[str]]
"""The ids of so many rows, best first."""


class Vectored:
    """A corpus with the vectors of its passages and questions."""

    def __init__(self, corpus: Corpus, embedder: Embedder) -> None:
        self.corpus = corpus
        self.noise, self.nearness = embedder.noise, embedder.nearness
        self.dimension = embedder.dimension
        self.passages = [(line, number, text) for line in corpus.lines for number, text in enumerate(chunks(line.text))]
        self.vectors = embedder.embed_documents(
            [embedded_text(line.role, line.date_ms, text) for line, _, text in self.passages]
        )
        self.questions = {each.text: embedder.embed_query(each.text) for each in corpus.questions}

    def trusted(self, nearness: float) -> Vectored:
        """The same with another trust in the model."""
        _ = self.index  # Made once, for both.
        other = copy(self)
        other.nearness = nearness
        return other

    @cached_property
    def index(self) -> ResidentIndex:
        return index_of(self)

    def indexed_anew(self) -> Vectored:
        other = copy(self)
        other.__dict__.pop("index", None)
        return other


def index_of(vectored: Vectored) -> ResidentIndex:
    term = defaultdict[str, int](count().__next__)
    words = [passage_words(line.role, line.date_ms, text) for line, _, text in vectored.passages]
    for both in words:
        for stems in both:
            for stem in stems:
                term[stem]
    counted = counted_words(words, term)
    rows = [
        IndexedPassage(
            line.id, number, 1, line.role, line.session, line.date_ms, None, None, None, terms, counts, vector
        )
        for (line, number, _), (terms, counts), vector in zip(vectored.passages, counted, vectored.vectors, strict=True)
    ]
    return ResidentIndex.from_columns(vectored.dimension, list(term.items()), rows)


def ours(vectored: Vectored, with_vectors: bool = True) -> Ranker:
    index = vectored.index

    def best(question: Question, limit: int) -> list[str]:
        vector = vectored.questions[question.text] if with_vectors else None
        named = periods(question.text, question.asked_ms)
        signals = QuerySignals(
            tuple(tokens(question.text)), vector, vectored.noise, vectored.nearness, named, question.text
        )
        return [row.memory_id for row in rank(index.candidates(signals), limit, tiers_default=True)]

    return best


def stemmed_bm25(lines: Sequence[Line]) -> Ranker:
    """The plain word ranking to beat: Snowball stems without function words, k1 1.2, b 0.75, whole rows."""
    rows = [Counter(_content(f"{line.role}: {line.text}")) for line in lines]
    lengths = np.array([sum(row.values()) for row in rows], float)
    norms = 1.2 * (0.25 + 0.75 * lengths / max(float(lengths.mean()), 1.0))
    frequency = Counter(term for row in rows for term in row)
    holding = {term: np.array([row[term] for row in rows], float) for term in frequency}

    def best(question: Question, limit: int) -> list[str]:
        scores = np.zeros(len(rows))
        for term in set(_content(question.text)) & set(holding):
            found, known = holding[term], frequency[term]
            scores += np.log1p((len(rows) - known + 0.5) / (known + 0.5)) * 2.2 * found / (found + norms)
        return [lines[int(row)].id for row in np.argsort(-scores, kind="stable")[:limit]]

    return best


def dense(vectored: Vectored) -> Ranker:
    """The nearest rows by the cosine of their best passage."""
    owners = np.unique([line.id for line, _, _ in vectored.passages], return_inverse=True)

    def best(question: Question, limit: int) -> list[str]:
        near = np.full(len(owners[0]), -1.0)
        np.maximum.at(near, owners[1], vectored.vectors @ vectored.questions[question.text])
        return [str(owners[0][row]) for row in np.argsort(-near, kind="stable")[:limit]]

    return best


def _content(text: str) -> list[str]:
    return [token for token in tokens(text) if token not in FUNCTION_WORDS]
