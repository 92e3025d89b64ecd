"""Large mixes by seed, on every back end.

On DynamoDB one request in thirty meets a conflict, is throttled, or loses its answer.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.simulation.conftest import Tally
from tests.simulation.dynamo_stage import DynamoStage
from tests.simulation.mixes import run_mix
from tests.simulation.sqlite_stage import SqliteStage
from tests.simulation.world import Counts, Stage

TROUBLE = 0.03


def run(stage: Stage, seeds: Iterable[int], workers: int, calls: int, crashes: int) -> Counts:
    total = Counts()
    for seed in seeds:
        total.add(run_mix(seed, stage, workers, calls, crashes * (seed % 2)))
    return total


def sqlite(folder: Path) -> Stage:
    stage = SqliteStage(folder)
    stage.prepare([])
    return stage


def test_a_few_mixes_on_sqlite(tmp_path: Path, tally: Tally) -> None:
    total = run(sqlite(tmp_path), range(25), workers=4, calls=12, crashes=2)
    tally(total)
    assert total.commits > 25
    assert total.crashes > 0


@pytest.mark.slow
def test_many_mixes_on_sqlite(tmp_path: Path, tally: Tally) -> None:
    total = run(sqlite(tmp_path), range(1000, 1200), workers=6, calls=20, crashes=3)
    tally(total)
    assert total.commits > 1000


@pytest.mark.slow
def test_a_few_mixes_on_dynamodb(tally: Tally) -> None:
    stage = DynamoStage(7, TROUBLE)
    total = run(stage, range(20), workers=5, calls=16, crashes=2)
    tally(total)
    assert total.commits > 20
    assert total.crashes > 0
    assert stage.trouble.met > 20


@pytest.mark.slow
def test_many_mixes_on_dynamodb(tally: Tally) -> None:
    stage = DynamoStage(8, TROUBLE)
    total = run(stage, range(1000, 1120), workers=6, calls=20, crashes=3)
    tally(total)
    assert total.commits > 400
    assert stage.trouble.met > 500
