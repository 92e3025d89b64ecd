"""The blend of tiers, on every small ranking."""

from itertools import pairwise, product

import numpy as np

from shared.retrieval.blend import blend


def leaders_of(tiers: tuple[int, ...]) -> list[int]:
    return sorted({tier: row for row, tier in reversed(list(enumerate(tiers)))}.values())


def test_every_small_ranking() -> None:
    for tiers in product((1, 2, 3), repeat=6):
        scores = np.linspace(0.9, 0.4, 6)
        whole = blend(range(6), leaders_of(tiers), scores, 6)
        rows = [row for row, _ in whole]
        shown = [score for _, score in whole]
        assert sorted(rows) == list(range(6))
        assert rows[0] == 0
        assert shown[0] == scores[0]
        assert all(one >= other for one, other in pairwise(shown))
        kinds = len(set(tiers))
        assert len({tiers[row] for row in rows[:kinds]}) == kinds
        moved = [row for place, row in enumerate(rows) if shown[place] != scores[row]]
        assert set(moved) <= set(leaders_of(tiers))
        for limit in range(1, 6):
            assert blend(range(limit), leaders_of(tiers), scores, limit) == whole[:limit]


def test_a_lifted_row_shows_the_score_before_it() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.2])
    assert blend([0, 1, 2, 3], [0, 3], scores, 4) == [
        (0, 0.9),
        (3, 0.9),
        (1, 0.8),
        (2, 0.7),
    ]


def test_without_a_relevant_tier_the_order_stands() -> None:
    scores = np.array([0.3, 0.2])
    assert [row for row, _ in blend([0, 1], [], scores, 2)] == [0, 1]
