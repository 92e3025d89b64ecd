"""Metering: sums per key, day and operation."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared.adapters.sqlite.directory import SqliteUsage
from shared.ports.usage import UsageMeter, UsageRow
from tests.contract.sqlite_rig import connect

METERS: dict[str, Callable[[Path], UsageMeter]] = {"sqlite": lambda folder: SqliteUsage(folder, connect)}


@pytest.fixture(params=list(METERS))
def meter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UsageMeter]:
    made = METERS[request.param](tmp_path)
    yield made
    if isinstance(made, SqliteUsage):
        made.close()


def test_a_day_is_summed_by_operation(meter: UsageMeter) -> None:
    for tokens in (5, 7):
        meter.record("k", "2026-02-01", "search", tokens, 1)
    meter.record("k", "2026-02-01", "ingest", 3, 2)
    assert list(meter.read("k", "2026-02-01", "2026-02-01")) == [
        UsageRow("2026-02-01", "ingest", 2, 3),
        UsageRow("2026-02-01", "search", 2, 12),
    ]


def test_both_ends_of_the_period_are_included(meter: UsageMeter) -> None:
    for day in ("2026-01-31", "2026-02-01", "2026-02-28", "2026-03-01"):
        meter.record("k", day, "search", 1, 1)
    assert [row.day for row in meter.read("k", "2026-02-01", "2026-02-28")] == ["2026-02-01", "2026-02-28"]
    assert list(meter.read("k", "2027-01-01", "2026-01-01")) == []


def test_keys_are_metered_apart(meter: UsageMeter) -> None:
    meter.record("k", "2026-02-01", "search", 1, 1)
    assert list(meter.read("other", "2026-01-01", "2026-12-31")) == []


def test_metering_never_fails_a_request(meter: UsageMeter, caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(meter, SqliteUsage)
    meter.close()
    meter.record("k", "2026-02-01", "search", 1, 1)
    assert "usage was not recorded" in caplog.text


def test_no_record_is_lost_between_threads(meter: UsageMeter) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: meter.record("k", "2026-02-01", "search", n, 1), range(100)))
    assert list(meter.read("k", "2026-02-01", "2026-02-01")) == [UsageRow("2026-02-01", "search", 100, 4950)]
