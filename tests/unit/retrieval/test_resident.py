"""The resident index: exact after every history, filtered before ranking, nothing of the deleted left."""

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from random import Random
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.sqlite.resident import ResidentIndex
from shared.ports.search import Filters
from shared.retrieval.chunks import embedded_text
from shared.retrieval.function_words import content_words
from shared.retrieval.indexed import IndexedPassage, QuerySignals, counted_words, passage_words
from shared.retrieval.passages import PassageTable
from shared.retrieval.postings import Postings
from shared.retrieval.ranking import Candidates, Ranked, passage_scores, rank
from shared.retrieval.tokens import tokens

MODEL = HashingEmbedder()
WORDS = ("river", "bridge", "night", "boat", "lamp", "stone", "the", "of")
NUMBER = defaultdict[str, int](count().__next__)
"""The term of every stem that a test meets."""


@dataclass(frozen=True)
class Row:
    number: int
    texts: tuple[str, ...]
    date: int = 0
    session: str | None = None
    tier: int = 1
    importance: int | None = None
    covers: tuple[int, int] | None = None
    role: str = "user"
    vector: bool = True

    @property
    def id(self) -> str:
        return str(UUID(int=self.number))


def passages(row: Row, index: ResidentIndex) -> list[IndexedPassage]:
    made = []
    for number, text in enumerate(row.texts):
        words = passage_words(row.role, row.date, text)
        ((terms, counts),) = counted_words([words], NUMBER)
        index.learn((stem, NUMBER[stem]) for stems in words for stem in stems)
        vector = MODEL.embed_query(embedded_text(row.role, row.date, text)) if row.vector else None
        covers_from, covers_to = row.covers or (None, None)
        made.append(
            IndexedPassage(
                row.id,
                number,
                row.tier,
                row.role,
                row.session,
                row.date,
                row.importance,
                covers_from,
                covers_to,
                terms,
                counts,
                vector,
            )
        )
    return made


def built(rows: Iterable[Row]) -> ResidentIndex:
    index = ResidentIndex(MODEL.dimension, 2)
    for row in rows:
        index.add(passages(row, index))
    return index


def loaded(rows: Sequence[Row]) -> ResidentIndex:
    made = [passage for row in rows for passage in passages(row, ResidentIndex(MODEL.dimension))]
    return ResidentIndex.from_columns(MODEL.dimension, NUMBER.items(), made)


def ask(text: str, *, vector: bool = True) -> QuerySignals:
    return QuerySignals(tuple(tokens(text)), MODEL.embed_query(text) if vector else None, MODEL.noise)


def search(index: ResidentIndex, text: str, filters: Filters | None = None, limit: int = 100) -> list[Ranked]:
    return rank(index.candidates(ask(text), filters), limit, tiers_default=False)


Signals = dict[tuple[int, int], tuple[float, ...]]


def signals(index: ResidentIndex, query: str) -> Signals:
    """Everything that is known of each passage, by memory and place."""
    found: Candidates = index.candidates(ask(query))
    scores = passage_scores(found)
    seen: dict[int, int] = {}
    result: Signals = {}
    for at, memory in enumerate(found.memory.tolist()):
        number = int(found.id_low[memory])
        place = seen[number] = seen.get(number, -1) + 1
        own = 0.0 if found.own is None else float(found.own[at])
        context = 0.0 if found.context is None else float(found.context[at])
        values = (found.words[at], found.matched[at], found.has_vector[at], own, context, scores[at])
        result[number, place] = tuple(float(value) for value in values)
    return result


def same(one: Signals, other: Signals) -> None:
    """To the last bit: an index that was rebuilt ties where the first one tied."""
    assert one == other


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
row_parts = st.tuples(
    st.lists(texts, min_size=1, max_size=3).map(tuple),
    st.integers(0, 3),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from(["user", "Nora", "Ben"]),
    st.booleans(),
)
histories = st.lists(row_parts, min_size=1, max_size=9).map(
    lambda parts: [Row(n, t, d, s, role=r, vector=v) for n, (t, d, s, r, v) in enumerate(parts, 1)]
)
queries = st.lists(st.sampled_from([*WORDS, "Nora", "Ben"]), min_size=1, max_size=4).map(" ".join)


@given(histories, queries, st.randoms(use_true_random=False))
def test_order_of_arrival_does_not_matter(rows: list[Row], query: str, random: Random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    same(signals(built(shuffled), query), signals(built(rows), query))


@given(histories, queries)
def test_loading_equals_adding(rows: list[Row], query: str) -> None:
    same(signals(loaded(rows), query), signals(built(rows), query))


@given(histories, queries, st.sets(st.integers(1, 9)))
def test_a_deleted_row_leaves_no_trace(rows: list[Row], query: str, gone: set[int]) -> None:
    kept = [row for row in rows if row.number not in gone]
    index = built(rows)
    index.candidates(ask(query))
    index.remove([str(UUID(int=number)) for number in gone])
    same(signals(index, query), signals(built(kept), query))
    from_disk = loaded(rows)
    from_disk.remove([str(UUID(int=number)) for number in gone])
    same(signals(from_disk, query), signals(built(kept), query))


@given(histories, queries, st.sets(st.integers(1, 9)))
def test_compaction_and_merging_change_nothing(rows: list[Row], query: str, gone: set[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResidentIndex, "COMPACT_AT", 0)
        patch.setattr(Postings, "MERGE_AT", 0)
        index = built(rows)
        for number in sorted(gone):
            index.remove([str(UUID(int=number))])
        again = [replace(row, number=row.number + 100) for row in rows]
        for row in again:
            index.add(passages(row, index))
    expected = built([row for row in rows if row.number not in gone] + again)
    same(signals(index, query), signals(expected, query))
    assert index.counts() == expected.counts()


@given(histories, queries)
def test_late_vectors_equal_early_ones(rows: list[Row], query: str) -> None:
    index = built([replace(row, vector=False) for row in rows])
    index.candidates(ask(query))
    late = [
        (row.id, number, MODEL.embed_query(embedded_text(row.role, row.date, text)))
        for row in rows
        if row.vector
        for number, text in enumerate(row.texts)
    ]
    index.set_vectors(late)
    same(signals(index, query), signals(built(rows), query))


def test_context_is_the_messages_around() -> None:
    rows = [Row(n, (text,), n, "s") for n, text in enumerate(("river boat", "stone", "lamp night", "bridge"), 1)]
    found = signals(built(reversed(rows)), "river lamp")
    asked = MODEL.embed_query("river lamp")
    made = np.zeros((6, MODEL.dimension))
    made[1:5] = MODEL.embed_documents([embedded_text(row.role, row.date, row.texts[0]) for row in rows])
    for at in range(1, 5):
        mixed = made[at] + 0.5 * made[at - 1] + 0.5 * made[at + 1]
        # Vectors are kept at 16 bits.
        assert found[at, 0][4] == pytest.approx(mixed @ asked / np.linalg.norm(mixed), abs=2e-3)


@given(st.lists(texts, min_size=1, max_size=8), queries)
def test_words_are_scored_in_three_widening_fields(said: list[str], query: str) -> None:
    index = built([Row(n, (text,), n, "s") for n, text in enumerate(said, 1)])
    heading = tokens(embedded_text("user", 0, ""))
    bags = [tokens(text) + heading for text in said]
    wanted = content_words(frozenset(tokens(query)))
    totals = []
    for reach, average in ((0, 25), (1, 75), (2, 125)):
        fields = [list(chain.from_iterable(bags[max(0, at - reach) : at + reach + 1])) for at in range(len(bags))]
        scores = []
        for field in fields:
            bm25 = 0.0
            for term in wanted:
                frequency = sum(term in other for other in fields)
                idf = math.log(1 + (len(fields) - frequency + 0.5) / (frequency + 0.5))
                times = field.count(term)
                bm25 += idf * 2.2 * times / (times + 1.2 * (0.25 + 0.75 * len(field) / average))
            scores.append(bm25 / (bm25 + 10))
        totals.append(scores)
    found = signals(index, query)
    for at in range(len(said)):
        expected = sum(weight * scores[at] for weight, scores in zip((0.3, 0.35, 0.35), totals, strict=True))
        assert found[at + 1, 0][0] == pytest.approx(expected, abs=1e-5)


def test_rows_without_a_session_have_no_context() -> None:
    alone = signals(built([Row(1, ("stone",), 1), Row(2, ("river",), 2)]), "stone")
    assert alone[2, 0][0] == 0.0
    joined = signals(built([Row(1, ("stone",), 1, "s"), Row(2, ("river",), 2, "s")]), "stone")
    assert joined[2, 0][0] > 0.0


def test_a_row_matches_by_its_own_words_or_those_beside_it() -> None:
    said = ["stone", "at seven", "fog", "rain"]
    found = signals(built([Row(n, (text,), n, "s") for n, text in enumerate(said, 1)]), "stone")
    assert [bool(found[n, 0][1]) for n in (1, 2, 3, 4)] == [True, True, False, False]
    apart = signals(built([Row(n, (text,), n) for n, text in enumerate(said, 1)]), "stone")
    assert [bool(apart[n, 0][1]) for n in (1, 2, 3, 4)] == [True, False, False, False]


def test_filters_come_before_the_limit() -> None:
    rows = [Row(n, ("river " * 5,), n, "loud") for n in range(1, 40)]
    rows += [Row(n, ("a quiet stone",), n, "calm") for n in range(40, 45)]
    found = search(built(rows), "river", Filters(session_id="calm"), limit=5)
    assert {row.memory_id for row in found} == {row.id for row in rows[39:]}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(), {1, 2, 3, 4, 5}),
        (Filters(tiers=frozenset({2, 3})), {4, 5}),
        (Filters(min_importance=5), {5}),
        (Filters(min_importance=1), {4, 5}),
        (Filters(session_id="a"), {1, 3, 4, 5}),
        (Filters(session_id="never seen"), {3, 4, 5}),
        (Filters(from_ms=20), {2, 3, 4, 5}),
        (Filters(to_ms=20), {1, 4}),
        (Filters(from_ms=20, to_ms=21), {2, 4}),
        (Filters(from_ms=31, to_ms=41), {5}),
        (Filters(from_ms=26, to_ms=26), set()),
        (Filters(from_ms=20, to_ms=20), set()),
    ],
)
def test_filters(filters: Filters, expected: set[int]) -> None:
    index = built(
        [
            Row(1, ("river",), 10, "a"),
            Row(2, ("river",), 20, "b"),
            Row(3, ("river",), 30),
            Row(4, ("river",), 25, tier=2, importance=3, covers=(10, 25)),
            Row(5, ("river",), 50, tier=3, importance=8, covers=(40, 50)),
        ]
    )
    assert {UUID(row.memory_id).int for row in search(index, "river", filters)} == expected


def test_excluded_rows_stay_out() -> None:
    index = built([Row(1, ("river", "boat")), Row(2, ("river",))])
    found = index.candidates(ask("river"), exclude=[str(UUID(int=1)), str(UUID(int=7))])
    assert [row.memory_id for row in rank(found, 5, tiers_default=True)] == [str(UUID(int=2))]


def test_the_one_speaker_named_is_preferred_and_matches() -> None:
    index = built([Row(1, ("stone",), role="Nora"), Row(2, ("stone",), role="Ben"), Row(3, ("stone",))])
    assert search(index, "Nora's stone")[0].memory_id == str(UUID(int=1))
    assert index.candidates(ask("what did Nora say")).speaks is not None
    assert index.candidates(ask("Nora and Ben")).speaks is None
    assert index.candidates(ask("user stone")).speaks is None
    index.remove([str(UUID(int=2))])
    assert index.candidates(ask("Nora and Ben")).speaks is not None


def test_words_of_role_and_date_rank_but_do_not_match() -> None:
    index = built([Row(1, ("stone",), 1_683_504_000_000), Row(2, ("stone",), 0)])
    found = index.candidates(ask("2023", vector=False))
    assert found.words[0] > 0 == found.words[1]
    assert not found.matched.any()


def test_function_words_alone_do_not_match() -> None:
    index = built([Row(1, ("the stone of the bridge",)), Row(2, ("a boat",))])
    assert index.candidates(ask("the boat", vector=False)).matched.tolist() == [False, True]
    assert index.candidates(ask("the", vector=False)).matched.tolist() == [True, False]


def test_a_row_put_again_is_replaced() -> None:
    index = built([Row(1, ("river",), session="s"), Row(2, ("boat",), 1, session="s"), Row(1, ("stone", "lamp"))])
    same(
        signals(index, "river stone"),
        signals(built([Row(2, ("boat",), 1, session="s"), Row(1, ("stone", "lamp"))]), "river stone"),
    )
    assert index.counts() == (3, 0)
    assert str(UUID(int=1)) in index


@given(st.lists(st.tuples(texts, st.sampled_from(["user", "Nora", "the boat", ""])), max_size=5))
def test_words_are_counted_and_those_of_the_heading_alone_are_marked(passages: list[tuple[str, str]]) -> None:
    counted = counted_words([passage_words(role, 0, text) for text, role in passages], NUMBER)
    assert len(counted) == len(passages)
    for (terms, counts), (text, role) in zip(counted, passages, strict=True):
        own, heading = Counter(tokens(text)), Counter(tokens(f"{role} (1 January 1970)"))
        expected = {stem: own[stem] + heading[stem] + (0 if own[stem] else 0x8000) for stem in own | heading}
        assert dict(zip(terms.tolist(), counts.tolist(), strict=True)) == {NUMBER[s]: n for s, n in expected.items()}


def test_terms_without_a_row_are_told_and_can_be_forgotten() -> None:
    rows = [Row(1, ("river stone",)), Row(2, ("stone lamp",)), Row(3, ("lamp boat", "kettle"))]
    for index in (built(rows), loaded(rows)):
        names = [str(UUID(int=number)) for number in (1, 2, 3)]
        asked = np.array([NUMBER[stem] for stem in ("river", "stone", "lamp", "boat", "kettl", "user")], np.int32)

        def unused(*without: str, index: ResidentIndex = index, asked: npt.NDArray[np.int32] = asked) -> set[int]:
            return set(index.unused(asked, without).tolist())

        assert unused() == set()
        assert unused(names[0], str(UUID(int=9))) == {NUMBER["river"]}
        assert unused(*names[:2]) == {NUMBER["river"], NUMBER["stone"]}
        assert unused(names[2]) == {NUMBER["boat"], NUMBER["kettl"]}
        assert unused(*names) == set(asked.tolist())
        index.remove(names[2:])
        assert unused() == {NUMBER["boat"], NUMBER["kettl"]}
        index.forget(["boat", "kettl", "never met"])
        assert unused(names[1]) >= {NUMBER["lamp"]}
        assert search(index, "lamp boat", limit=1)[0].memory_id == names[1]


def test_an_empty_index_answers() -> None:
    index = ResidentIndex(MODEL.dimension)
    assert search(index, "river") == []
    assert index.counts() == (0, 0)
    index.set_vectors([(str(UUID(int=1)), 0, MODEL.embed_query("x"))])
    index.remove([str(UUID(int=1))])
    assert loaded([]).counts() == (0, 0)
    assert index.bytes_used() > 0


def test_growth_keeps_every_column() -> None:
    table = PassageTable(2, capacity=1)
    assert table.used == 1
    index = built([Row(n, ("river boat",), n, f"s{n % 7}") for n in range(1, 200)])
    assert index.counts() == (199, 0)
    assert len(search(index, "river", limit=500)) == 199


def test_readers_see_whole_memories_while_a_writer_works() -> None:
    index = built([Row(1, ("river boat", "river stone"), 1, "s")])
    stop = threading.Event()
    seen: list[set[int]] = []

    def read() -> None:
        while not stop.is_set():
            memories = index.candidates(ask("river")).memory.tolist()
            seen.append({memories.count(memory) for memory in memories})

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(2, 120):
        index.add(passages(Row(number, ("river lamp", "a night"), number, "s"), index))
        if number % 3 == 0:
            index.remove([str(UUID(int=number - 1))])
    stop.set()
    for reader in readers:
        reader.join()
    assert seen
    assert all(counts == {2} for counts in seen)
