"""Retrieval quality: recall, hits and reciprocal ranks against stemmed BM25 and against vectors alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shared.adapters.local_embedder.minilm import MiniLmEmbedder
from shared.adapters.local_embedder.static import StaticEmbedder
from tests.bench.report import Grid, Options, Row, Shown, at_least
from tests.bench.retrieval import locomo, manuals, probes
from tests.bench.retrieval.corpus import Corpus
from tests.bench.retrieval.rankers import Ranker, Vectored, dense, ours, stemmed_bm25
from tests.bench.retrieval.scoring import CUTS, Outcome, gains, interval, mean, outcomes

DEFAULT, LIGHT, BM25, DENSE = "strata", "strata, light model", "stemmed BM25", "vectors alone"
RANKINGS: dict[str, Callable[[Vectored], Ranker]] = {
    DEFAULT: ours,
    "strata, words alone": lambda vectored: ours(vectored, with_vectors=False),
    BM25: lambda vectored: stemmed_bm25(vectored.corpus.lines),
    DENSE: dense,
}


def measured(corpora: Sequence[Corpus]) -> dict[str, list[Outcome]]:
    """By the name of the ranking."""
    default, light = MiniLmEmbedder(), StaticEmbedder()
    sets = [Vectored(corpus, default) for corpus in corpora]
    found = {name: outcomes(sets, make) for name, make in RANKINGS.items()}
    sets = [Vectored(corpus, light) for corpus in corpora]
    found[LIGHT] = outcomes(sets, ours)
    found[f"{DENSE}, light model"] = outcomes(sets, dense)
    return {name: found[name] for name in dict.fromkeys((DEFAULT, LIGHT, *found))}


def whole(title: str, found: dict[str, list[Outcome]]) -> Grid:
    rows = []
    for name, each in found.items():
        low, high = interval([outcome.recall for outcome in each])
        recalls = [f"{mean(outcome.recalls[place] for outcome in each):.3f}" for place in range(len(CUTS))]
        hits, reciprocal = mean(outcome.hit for outcome in each), mean(outcome.reciprocal for outcome in each)
        rows.append([name, *recalls, f"{low:.3f} to {high:.3f}", f"{hits:.3f}", f"{reciprocal:.3f}"])
    cuts = [f"recall@{cut}" for cut in CUTS]
    questions = len(next(iter(found.values())))
    return Grid([f"{title}: {questions:,} questions", *cuts, "95 % of recall@10", "hit@10", "MRR"], rows)


def by_category(found: dict[str, list[Outcome]]) -> Grid:
    named = dict.fromkeys(outcome.category for outcome in found[DEFAULT])
    rows = []
    for category in named:
        values = [[outcome.recall for outcome in each if outcome.category == category] for each in found.values()]
        rows.append([category, str(len(values[0])), *(f"{mean(each):.3f}" for each in values)])
    return Grid(["recall@10 by category", "questions", *found], rows)


def gain(title: str, found: dict[str, list[Outcome]], against: str, least: float | None, lower: float | None) -> Row:
    differences = gains(found[DEFAULT], found[against])
    low, high = interval(differences)
    target = "" if least is None else f"≥ {least}, lower bound ≥ {lower}"
    met = None if least is None or lower is None else mean(differences) >= least and low >= lower
    return Row(
        f"{title}: recall@10 above {against}",
        f"{mean(differences):+.3f} (95 %: {low:+.3f} to {high:+.3f})",
        f"{mean(outcome.recall for outcome in found[against]):.3f}",
        "",
        target,
        met,
    )


def run(options: Options) -> list[Shown]:
    sets: list[tuple[str, list[Corpus]]] = []
    if options.locomo is not None:
        sets.append((LOCOMO, locomo.corpora(options.locomo)))
    generated = probes.corpora()
    sets += [("generated", generated[:1] if options.quick else generated), ("Python's manual", manuals.corpora())]
    shown: list[Shown] = []
    for title, corpora in sets:
        found = measured(corpora)
        shown += [whole(title, found), by_category(found)]
        if title == LOCOMO:
            for name, least in ((DEFAULT, 0.80), (LIGHT, 0.76)):
                recall = mean(outcome.recall for outcome in found[name])
                shown.append(Row(f"{title}: recall@10, {name}", f"{recall:.3f}", "", "", *at_least(recall, least)))
        chosen = title == LOCOMO
        shown += [
            gain(title, found, BM25, 0.13 if chosen else None, 0.10 if chosen else None),
            gain(title, found, DENSE, None, None),
        ]
    return shown


LOCOMO = "LoCoMo"
TITLE = "Retrieval quality"
NOTE = (
    "Recall is the share of a question's right rows among the first so many, averaged over questions; MRR is the mean"
    " of one by the place of the first right row (0 below the twentieth); intervals by bootstrap over questions. Every"
    " conversation, generated vault or manual is one vault, every turn, line or topic one memory. LoCoMo: categories 1"
    " to 4, the file that was named on the command line; the data set is not part of this project. Generated: five"
    " vaults of some 1,300 rows made by `tests/bench/retrieval/probes`, whose right answers are known by construction."
    " Python's manual: the help topics that ship with Python, whole documents, and questions about them. Stemmed BM25:"
    " Snowball stems without function words, k1 1.2, b 0.75, over role and text. Vectors alone: the cosine of a row's"
    " best passage, default model unless it says light (wordllama-256)."
)
