"""Fusion, priors and the order of memories, against plain arithmetic."""

from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.retrieval import ranking
from shared.retrieval.ranking import Candidates, base_scores, passage_scores, rank, session_priors

UNIT = st.floats(0, 1, width=32)
COSINE = st.floats(-1, 1, width=32)


def found(
    words: list[float],
    own: list[float] | None = None,
    context: list[float] | None = None,
    *,
    memory: list[int] | None = None,
    matched: list[bool] | None = None,
    session: list[int] | None = None,
    has_vector: list[bool] | None = None,
    speaks: list[bool] | None = None,
    tier: list[int] | None = None,
    date: list[int] | None = None,
) -> Candidates:
    count = len(words)
    return Candidates(
        memory=np.array(memory if memory is not None else range(count), np.int32),
        words=np.array(words, np.float32),
        matched=np.array(matched if matched is not None else [True] * count, np.bool_),
        session=np.array(session if session is not None else [-1] * count, np.int32),
        has_vector=np.array(has_vector if has_vector is not None else [True] * count, np.bool_),
        own=None if own is None else np.array(own, np.float32),
        context=None if context is None else np.array(context, np.float32),
        speaks=None if speaks is None else np.array(speaks, np.bool_),
        tier=np.array(tier if tier is not None else [1] * count, np.int8),
        date=np.array(date if date is not None else [0] * count, np.int64),
        id_high=np.zeros(count, np.uint64),
        id_low=np.arange(1, count + 1).astype(np.uint64),
    )


def number(row: ranking.Ranked) -> int:
    return UUID(row.memory_id).int - 1


@st.composite
def candidates(draw: st.DrawFn) -> Candidates:
    count = draw(st.integers(1, 25))

    def column(values: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(values, min_size=count, max_size=count))

    words = column(st.one_of(UNIT, st.just(0.25)))
    if draw(st.booleans()):
        return found(words, column(COSINE), column(COSINE))
    return found(words)


def test_nearness_and_words_are_weighted() -> None:
    base = base_scores(found([0.4], [0.8], [0.6]))
    assert base[0] == pytest.approx(0.5 * (0.3 * 0.8 + 0.7 * 0.6) + 0.5 * 0.4)


def test_a_model_counts_as_far_as_it_is_trusted() -> None:
    base = base_scores(replace(found([0.4], [0.8], [0.6]), nearness=0.2))
    assert base[0] == pytest.approx(0.2 * (0.3 * 0.8 + 0.7 * 0.6) + 0.8 * 0.4)


def test_words_alone_without_a_vector() -> None:
    assert base_scores(found([0.4]))[0] == pytest.approx(0.4)
    assert base_scores(found([0.4], [0.9], [0.9], has_vector=[False]))[0] == pytest.approx(0.4)


def test_a_negative_cosine_takes_nothing_away() -> None:
    assert base_scores(found([0.4], [-0.8], [-0.6]))[0] == pytest.approx(0.2)


def test_a_session_is_judged_by_its_three_best() -> None:
    base = np.array([0.9, 0.6, 0.3, 0.1, 0.5, 0.2, 0.8])
    session = np.array([0, 0, 0, 0, 1, 1, -1], np.int32)
    expected = [0.6] * 4 + [0.35] * 2 + [0.8]
    assert session_priors(base, session) == pytest.approx(np.array(expected))


def test_below_the_depth_a_session_counts_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "PRIOR_DEPTH", 3)
    base = np.array([0.9, 0.8, 0.5, 0.4, 0.3, 0.2])
    session = np.array([0, 1, 0, 1, 2, 0], np.int32)
    # The three best are 0.9, 0.8 and 0.5; everything below counts 0.5, for as many rows as the session has.
    zero, one, two = (0.9 + 0.5 + 0.5) / 3, (0.8 + 0.5) / 2, 0.5
    assert session_priors(base, session) == pytest.approx(np.array([zero, one, zero, one, two, zero]))


def test_score_is_the_sum_by_the_weights_in_force() -> None:
    rows = found([0.5, 0.5], speaks=[True, False], session=[0, 1])
    speaking, silent = passage_scores(rows)
    assert speaking == pytest.approx((0.5 + 0.7 * 0.5 + 0.1) / 1.8)
    assert silent == pytest.approx((0.5 + 0.7 * 0.5) / 1.8)
    assert passage_scores(found([0.5], session=[0]))[0] == pytest.approx(0.5)


def test_a_row_of_the_period_is_preferred() -> None:
    rows = replace(found([0.5, 0.5], session=[0, 1]), within=np.array([True, False]))
    within, without = passage_scores(rows)
    assert within == pytest.approx((0.5 + 0.7 * 0.5 + 0.15) / 1.85)
    assert without == pytest.approx((0.5 + 0.7 * 0.5) / 1.85)


def test_the_best_passage_scores_the_memory() -> None:
    rows = rank(found([0.1, 0.9, 0.5], memory=[0, 0, 2]), 10, tiers_default=False)
    assert [number(row) for row in rows] == [0, 2]
    assert [row.score for row in rows] == pytest.approx([0.9, 0.5])


def test_matches_come_first_and_score_no_less() -> None:
    rows = rank(found([0.0, 0.2, 0.1], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], matched=[False, True, True]), 3, False)
    assert [number(row) for row in rows] == [1, 2, 0]
    assert [row.matched for row in rows] == [True, True, False]
    assert rows[2].score == rows[1].score


def test_rows_that_do_not_match_are_in_the_order_of_their_nearness() -> None:
    """However far above the matches they would score."""
    near = [0.6, 0.9, 0.1, 0.8]
    rows = rank(found([0.0] * 4, near, near, matched=[False, False, True, False]), 4, False)
    assert [number(row) for row in rows] == [2, 1, 3, 0]
    assert len({row.score for row in rows}) == 1


def test_ties_go_to_the_newer_then_to_the_smaller_id() -> None:
    rows = rank(found([0.5] * 4, date=[5, 9, 5, 9]), 4, tiers_default=False)
    assert [number(row) for row in rows] == [1, 3, 0, 2]


def test_a_tier_without_a_match_is_not_lifted() -> None:
    rows = found([0.9, 0.8, 0.7, 0.6], tier=[1, 1, 2, 3], matched=[True, True, False, True])
    assert [number(row) for row in rank(rows, 4, tiers_default=True)] == [0, 3, 1, 2]
    assert [number(row) for row in rank(rows, 4, tiers_default=False)] == [0, 1, 3, 2]


def test_nothing_to_rank() -> None:
    assert rank(found([]), 10, tiers_default=True) == []
    assert rank(found([0.5]), 0, tiers_default=True) == []


@given(candidates(), st.data())
def test_scores_are_bounded_ordered_and_independent_of_the_limit(rows: Candidates, data: st.DataObject) -> None:
    count = len(rows.memory)

    def column(values: st.SearchStrategy[int]) -> list[int]:
        return data.draw(st.lists(values, min_size=count, max_size=count))

    drawn = Candidates(
        memory=rows.memory,
        words=rows.words,
        matched=np.array(column(st.integers(0, 1)), np.bool_),
        session=np.array(column(st.integers(-1, 3)), np.int32),
        has_vector=np.array(column(st.integers(0, 1)), np.bool_),
        own=rows.own,
        context=rows.context,
        speaks=data.draw(st.sampled_from([None, np.array([True] * count)])),
        tier=np.array(column(st.integers(1, 3)), np.int8),
        date=np.array(column(st.integers(0, 3)), np.int64),
        id_high=rows.id_high,
        id_low=rows.id_low,
    )
    for blended in (True, False):
        whole = rank(drawn, count + 5, blended)
        assert len(whole) == count
        assert len({row.memory_id for row in whole}) == count
        scores = [row.score for row in whole]
        assert all(0.0 <= score <= 1.0 for score in scores)
        assert scores == sorted(scores, reverse=True)
        flags = [row.matched for row in whole]
        assert flags == sorted(flags, reverse=True)
        for limit in range(1, count + 1):
            assert rank(drawn, limit, blended) == whole[:limit]
        relevant = {row.tier for row in whole if row.matched}
        if blended:
            assert {row.tier for row in whole[: len(relevant)] if row.matched} == relevant


def test_rows_that_differ_in_the_last_bit_tie() -> None:
    """Else the newer of them would come first and score less."""
    words = [0.1, 0.1 + 1.4e-17, 0.1]
    for limit in (1, 2, 3):
        scores = [row.score for row in rank(found(words), limit, tiers_default=True)]
        assert scores == sorted(scores, reverse=True)
