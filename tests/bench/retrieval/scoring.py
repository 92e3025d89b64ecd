"""How well a ranking finds what is known to be right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.bench.retrieval.rankers import Ranker, Vectored

DEPTH = 20
CUTS = (5, 10, 20)
RESAMPLES = 10_000

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """One question. `recalls` are the shares of its right rows among the first of `CUTS`, `reciprocal` is one by the
    place of the first right row, 0 below `DEPTH`."""

    corpus: str
    category: str
    recalls: tuple[float, ...]
    hit: bool
    reciprocal: float

    @property
    def recall(self) -> float:
        """Among the first ten."""
        return self.recalls[CUTS.index(10)]


def outcomes(sets: Iterable[Vectored], make: Callable[[Vectored], Ranker]) -> list[Outcome]:
    """Every question of every corpus, in order."""
    found = []
    for vectored in sets:
        ranker = make(vectored)
        for question in vectored.corpus.questions:
            answer = ranker(question, DEPTH)
            right = [place for place, row in enumerate(answer) if row in question.relevant]
            found.append(
                Outcome(
                    vectored.corpus.name,
                    question.category,
                    tuple(sum(place < cut for place in right) / len(question.relevant) for cut in CUTS),
                    any(place < 10 for place in right),
                    1 / (right[0] + 1) if right else 0.0,
                )
            )
    return found


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean by the percentile bootstrap (Efron 1979), questions resampled; always the same."""
    drawn = np.random.default_rng(7)
    sample = np.array(values)
    means = [float(sample[drawn.integers(0, len(sample), len(sample))].mean()) for _ in range(RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def gains(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> list[float]:
    """By how much recall@10 is higher, question by question."""
    return [one.recall - other.recall for one, other in zip(ours, theirs, strict=True)]
