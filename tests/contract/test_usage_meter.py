"""Metering: sums per key, day and operation."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import pytest

from shared.adapters.dynamodb.usage import DynamoUsage
from shared.adapters.sqlite.directory import SqliteUsage
from shared.ports.usage import UsageMeter, UsageRow
from tests.contract.conftest import SERVED, SERVED_MARKS
from tests.contract.dynamodb_rig import DynamoRig
from tests.contract.sqlite_rig import connect


class MeterRig(Protocol):
    """`broken` is a meter that has lost its storage."""

    @property
    def usage(self) -> UsageMeter: ...

    def broken(self) -> UsageMeter: ...

    def close(self) -> None: ...


class SqliteMeterRig:
    def __init__(self, folder: Path) -> None:
        self.usage = SqliteUsage(folder, connect)

    def broken(self) -> UsageMeter:
        self.usage.close()
        return self.usage

    def close(self) -> None:
        self.usage.close()


class DynamoMeterRig:
    def __init__(self, rig: DynamoRig) -> None:
        self.usage, self._rig = rig.usage, rig

    def broken(self) -> UsageMeter:
        return DynamoUsage(self._rig.table_named("missing"))

    def close(self) -> None:
        self._rig.close()


@pytest.fixture(params=["sqlite", "dynamodb", pytest.param(SERVED, marks=SERVED_MARKS)])
def meters(request: pytest.FixtureRequest, dynamo: Callable[[str], DynamoRig], tmp_path: Path) -> Iterator[MeterRig]:
    made = SqliteMeterRig(tmp_path) if request.param == "sqlite" else DynamoMeterRig(dynamo(request.param))
    yield made
    made.close()


@pytest.fixture
def meter(meters: MeterRig) -> UsageMeter:
    return meters.usage


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


def test_metering_never_fails_a_request(meters: MeterRig, caplog: pytest.LogCaptureFixture) -> None:
    meters.broken().record("k", "2026-02-01", "search", 1, 1)
    assert "usage was not recorded" in caplog.text


def test_calls_are_counted_by_key_and_minute(meter: UsageMeter) -> None:
    assert [meter.call("k", 29_000_000) for _ in range(3)] == [1, 2, 3]
    assert (meter.call("other", 29_000_000), meter.call("k", 29_000_001), meter.call("k", 29_000_001)) == (1, 1, 2)
    # Counts are no usage.
    assert list(meter.read("k", "0001-01-01", "9999-12-31")) == []


def test_no_call_is_lost_between_threads(meter: UsageMeter) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: meter.call("k", 29_000_000), range(100))) == list(range(1, 101))


def test_no_record_is_lost_between_threads(meter: UsageMeter) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: meter.record("k", "2026-02-01", "search", n, 1), range(100)))
    assert list(meter.read("k", "2026-02-01", "2026-02-01")) == [UsageRow("2026-02-01", "search", 100, 4950)]
