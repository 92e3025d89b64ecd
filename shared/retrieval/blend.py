"""The blend of tiers: insight, reflection and exact moment together, in an order that no limit changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def blend(
    ordered: Sequence[int], leaders: Sequence[int], scores: npt.NDArray[np.float64], limit: int
) -> list[tuple[int, float]]:
    """Rows with the scores they show, at most `limit`.

    `ordered` are the best rows overall, `leaders` the best row of each relevant tier, both best first. The leaders
    stand first, so that k relevant tiers are all seen in the first k rows; a row that was moved up shows the score of
    the row before it, hence scores never rise.
    """
    placed: list[tuple[int, float]] = []
    for row in leaders[:limit]:
        natural = len(placed) < len(ordered) and ordered[len(placed)] == row
        placed.append((row, float(scores[row]) if natural or not placed else placed[-1][1]))
    lifted = set(leaders)
    rest = [row for row in ordered if row not in lifted][: limit - len(placed)]
    return placed + [(row, float(scores[row])) for row in rest]
