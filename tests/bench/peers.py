"""The same work side by side with memory stores that other projects ship."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.report import Grid, Options, Row, at_least, at_most, ms, times
from tests.bench.retrieval import locomo, probes
from tests.bench.retrieval.peers import runner
from tests.bench.retrieval.peers.runner import OURS, TOP, Measured

MEM0 = "mem0_memory"
STORES = {
    OURS: "this project",
    MEM0: "mem0ai, a user id for each vault",
    f"{MEM0}:apart": "mem0ai, a collection for each vault",
    f"{MEM0}:with_keywords": "mem0ai, the same with keyword search",
    "langgraph_store": "LangGraph `InMemoryStore`, in memory only",
    "chroma_collection": "Chroma, a collection for each vault",
}
QUICK_CORPORA = 1
RECALL_LEAD = 0.15
FIFTH = 0.2
TOTAL = 0.7


def run(options: Options) -> Sequence[Row | Grid]:
    corpora = probes.corpora() if options.locomo is None else locomo.corpora(options.locomo)
    measured = runner.run(list(STORES), corpora[:QUICK_CORPORA] if options.quick else corpora)
    # Targets are for all of LoCoMo: its rows have one passage, and what a search costs grows with the rows.
    return [*compared(measured, stated=options.locomo is not None and not options.quick), table(measured)]


def compared(measured: Sequence[Measured], stated: bool) -> list[Row]:
    """This project against mem0ai as it is documented; with targets where they are `stated`."""
    by_name = {each.name: each for each in measured}
    ours, mem0 = by_name[OURS], by_name[MEM0]
    fifth, total = (FIFTH, TOTAL) if stated else (None, None)
    search = f"search, {ours.rows:,} rows in all, CPU p50 with the embedding"
    rows = [
        _ratio(search, ours.search_cpu_s, mem0.search_cpu_s, fifth),
        _ratio("search, CPU p50 without the embedding", ours.search_outside_s, mem0.search_outside_s, None),
        _ratio("ingest, CPU a row outside the model", ours.row_outside_s, mem0.row_outside_s, fifth),
        _ratio("ingest, CPU a row in all", ours.row_cpu_s, mem0.row_cpu_s, total),
    ]
    lead = ours.recall - mem0.recall
    target, met = at_least(lead, RECALL_LEAD) if stated else ("", None)
    what = f"recall@{TOP}, {len(ours.recalls):,} questions"
    return [*rows, Row(what, f"{ours.recall:.3f}", f"{mem0.recall:.3f}", f"{lead:+.3f}", target, met)]


def _ratio(what: str, ours_s: float, mem0_s: float, most: float | None) -> Row:
    target, met = ("", None) if most is None else at_most(ours_s / mem0_s, most)
    return Row(what, ms(ours_s), f"{ms(mem0_s)}, mem0ai", times(ours_s, mem0_s), target, met)


def table(measured: Sequence[Measured]) -> Grid:
    header = (
        "store",
        "versions",
        f"recall@{TOP}",
        "ingest, CPU a row: model + rest",
        "ingest, wall a row",
        "search, CPU p50: all, without the model",
        "search, wall p50",
        "resident",
    )
    return Grid(
        header,
        [
            (
                STORES[each.name],
                ", ".join(f"{name} {version}" for name, version in each.versions.items()),
                f"{each.recall:.3f}",
                f"{ms(each.row_model_s)} + {ms(each.row_outside_s)}",
                ms(each.row_wall_s),
                f"{ms(each.search_cpu_s)}, {ms(each.search_outside_s)}",
                ms(each.search_wall_s),
                f"{each.resident:.0f} MiB",
            )
            for each in measured
        ],
    )


TITLE = "Beside other memory stores"
NOTE = (
    "LoCoMo where it was given (one vault a conversation, one row a turn), else the generated set. Each store works in"
    " a process of its own that cannot reach a network, all take turns at each vault, and all embed with this project's"
    " default model, one thread. All are given the same batches, the rows of one session together and at most 100 at"
    " once, and are asked for ten. The others get who spoke and when in front of each text, as this project embeds it;"
    " this project gets them as fields. Of a long text the others embed the 256 tokens that the model takes, this"
    " project every passage. This project: the embedded back end with its files synced to disk, its use cases without"
    " HTTP, until every row has its words and its vector. mem0ai: `infer=False`, its default vector"
    " store (Qdrant's local mode) on disk, no telemetry, no score threshold; with a user id for each vault, a search"
    " looks at the rows of all of them. Its keyword search needs a file that it"
    " downloads at first use, so that it is off, as it is for its users offline; the row with keyword search hands it"
    " that encoder with common English words as stop words. Its entities, which also need a download, are off."
    " LangGraph: one `batch` of puts, numpy, nothing on disk. Chroma: persistent client, cosine, vectors given in"
    " batches. CPU is that of all threads of the process; resident memory includes the model (some 100 MiB) and every"
    " library loaded."
)
