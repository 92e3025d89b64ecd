"""Texts cut to a remote model's limits, parts embedded side by side, answers checked before they are used."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.retrieval.remote import Floats, batches, shortened, side_by_side, unit_vectors


@given(st.text(max_size=40), st.integers(4, 60))
def test_a_shortened_text_is_the_longest_beginning_that_fits(text: str, most: int) -> None:
    kept = shortened(text, most)
    fitting = [text[:end] for end in range(len(text) + 1) if len(text[:end].encode()) <= most]
    assert kept == (fitting[-1] if fitting[-1].strip() else ".")


@given(st.lists(st.text(max_size=30), max_size=40), st.integers(1, 7), st.integers(1, 60))
def test_batches_keep_the_order_and_the_limits(texts: list[str], most: int, most_bytes: int) -> None:
    parts = list(batches(texts, most, most_bytes))
    assert [text for part in parts for text in part] == texts
    sizes = [[len(text.encode()) for text in part] for part in parts]
    assert all(1 <= len(part) <= most and (sum(part) <= most_bytes or len(part) == 1) for part in sizes)
    # No batch could have taken the next text too.
    for part, following in pairwise(sizes):
        assert len(part) == most or sum(part) + following[0] > most_bytes


def numbered(part: list[str]) -> Floats:
    return np.array([[float(text), 1.0] for text in part], np.float32)


def test_parts_are_embedded_side_by_side_and_put_in_order() -> None:
    # Each call waits for another one: one after the other they would break the barrier.
    meeting = threading.Barrier(2)

    def embed(part: list[str]) -> Floats:
        meeting.wait(5)
        return numbered(part)

    vectors = side_by_side(embed, [["3", "1"], ["2"], ["9"], ["4"]], 2, at_once=2)
    assert vectors.tolist() == [[3, 1], [1, 1], [2, 1], [9, 1], [4, 1]]


def test_few_parts_need_no_threads() -> None:
    def embed(part: list[str]) -> Floats:
        assert threading.current_thread() is threading.main_thread()
        return numbered(part)

    assert side_by_side(embed, [["5"]], 2, at_once=4).tolist() == [[5, 1]]
    assert side_by_side(embed, [], 2, at_once=4).shape == (0, 2)


def test_a_failing_part_fails_all_and_stops_the_rest() -> None:
    begun: list[str] = []

    def embed(part: list[str]) -> Floats:
        begun.append(part[0])
        raise RuntimeError(part[0])

    with pytest.raises(RuntimeError):
        side_by_side(embed, [[str(number)] for number in range(1000)], 2, at_once=2)
    assert 1 <= len(begun) <= 2


def test_rows_become_unit_vectors() -> None:
    vectors = unit_vectors([[3, 4.0], [0, -2]], 2, 2)
    assert vectors.dtype == np.float32
    assert vectors.tolist() == pytest.approx(np.array([[0.6, 0.8], [0, -1]]))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (None, "no vectors for 2"),
        ("ab", "no vectors for 2"),
        ([[1, 2]], "1 vectors for 2"),
        ([[1, 2]] * 3, "3 vectors for 2"),
        ([[1, 2], [1, 2, 3]], "3 numbers in place of 2"),
        ([[1, 2], [1]], "1 numbers in place of 2"),
        ([[1, 2], None], "no list of numbers"),
        ([[1, 2], ["1", 2]], "no list of numbers"),
        ([[1, 2], [True, 2]], "no list of numbers"),
        ([[1, 2], [0, 0.0]], "without a direction"),
        ([[1, 2], [float("nan"), 1]], "without a direction"),
        ([[1, 2], [float("inf"), 1]], "without a direction"),
        ([[1, 2], [10**400, 1]], "beyond all bounds"),
    ],
)
def test_anything_else_is_refused(rows: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        unit_vectors(rows, 2, 2)
