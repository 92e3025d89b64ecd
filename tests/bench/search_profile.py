"""One search in a large vault, its CPU time taken apart by stage."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from time import process_time
from typing import Any
from unittest.mock import patch

from shared.usecases.search import search
from shared.usecases.services import Caller
from tests.bench.report import Grid, Options, Row, Shown, ms, times
from tests.bench.search import ONE_PASSAGE, QUESTIONS, TOP
from tests.bench.vaults import Bench, Prose, bench

STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("the question's vector (given)", ("shared.usecases.search.meaning_of",)),
    (
        "the question's words and dates",
        ("shared.retrieval.periods.periods", "shared.adapters.sqlite.index.asked_stems"),
    ),
    ("reading changes", ("shared.usecases.search.catch_up",)),
    ("filters", ("shared.adapters.sqlite.resident.ResidentIndex._visible",)),
    ("lengths and norms", ("shared.adapters.sqlite.resident.ResidentIndex._refreshed",)),
    ("word scores", ("shared.adapters.sqlite.resident.word_scores",)),
    ("vector product", ("numpy.vecdot",)),
    ("context, speaker, periods, copies", ("shared.adapters.sqlite.resident.ResidentIndex.candidates",)),
    ("base scores", ("shared.retrieval.ranking.base_scores",)),
    ("session priors", ("shared.retrieval.ranking.session_priors",)),
    ("ranking", ("shared.adapters.sqlite.index.rank",)),
    ("fetching the rows", ("shared.adapters.sqlite.store.SqliteStore.get_with_debt",)),
)
"""What a stage is called, and the functions as their callers know them. Each without those of the other stages."""
REST = "everything else"


class Stopwatch:
    """CPU seconds and calls by stage; a stage that runs inside another stops that one's clock."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._running: list[str] = []
        self._since = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._charge()
        self._running.append(name)
        self.calls[name] += 1
        try:
            yield
        finally:
            self._charge()
            self._running.pop()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            with self.stage(name):
                return function(*arguments, **named)

        return run

    def _charge(self) -> None:
        now = process_time()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now


def owner_of(path: str) -> tuple[Any, str]:
    """The module or class that a dotted name belongs to, and the last part of the name."""
    place, _, name = path.rpartition(".")
    try:
        return import_module(place), name
    except ModuleNotFoundError:
        module, _, kind = place.rpartition(".")
        return getattr(import_module(module), kind), name


@contextmanager
def watched(watch: Stopwatch) -> Iterator[None]:
    """All functions of `STAGES` under the stopwatch."""
    with ExitStack() as patches:
        for stage, paths in STAGES:
            for path in paths:
                owner, name = owner_of(path)
                patches.enter_context(patch.object(owner, name, watch.timed(stage, getattr(owner, name))))
        yield


def profiled(made: Bench, caller: Caller, questions: Sequence[str]) -> list[Stopwatch]:
    """One stopwatch for each question."""
    seen = []
    for question in questions:
        watch = Stopwatch()
        with watched(watch), watch.stage(REST):
            search(made.services, caller, question, TOP, None, None)
        seen.append(watch)
    return seen


def plain(made: Bench, caller: Caller, questions: Sequence[str]) -> list[float]:
    """CPU seconds of the same searches without a stopwatch."""
    spent = []
    for question in questions:
        start = process_time()
        search(made.services, caller, question, TOP, None, None)
        spent.append(process_time() - start)
    return spent


def table(seen: Sequence[Stopwatch]) -> Grid:
    names = [*(stage for stage, _ in STAGES), REST]
    means = {name: statistics.fmean(watch.seconds[name] for watch in seen) for name in names}
    whole = sum(means.values())
    rows = [(name, ms(mean), f"{mean / whole:.0%}") for name, mean in means.items()]
    return Grid(("stage", "CPU, mean", "share"), [*rows, ("together", ms(whole), "100%")])


def run(options: Options) -> list[Shown]:
    count = 20_000 if options.quick else 100_000
    with bench() as made:
        prose, caller = Prose(), made.caller()
        made.fill_indexed(caller, [prose.text(ONE_PASSAGE) for _ in range(count)])
        questions = [prose.question() for _ in range(QUESTIONS)]
        profiled(made, caller, questions[:3])
        bare = statistics.fmean(plain(made, caller, questions))
        seen = profiled(made, caller, questions)
    whole = statistics.fmean(sum(watch.seconds.values()) for watch in seen)
    return [
        table(seen),
        Row(
            f"search among {count:,} rows, by stage, CPU mean", ms(whole), f"{ms(bare)}, unwatched", times(whole, bare)
        ),
    ]


TITLE = "Where a search spends its time"
NOTE = (
    f"Means of {QUESTIONS} questions of about ten words, most of them function words, in one warm vault of rows of"
    f" {ONE_PASSAGE} characters; the vector of the question is given. A stage's time is without that of the stages"
    " inside it. The baseline runs the same searches without the stopwatch."
)
