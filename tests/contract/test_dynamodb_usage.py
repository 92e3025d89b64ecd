"""The meter on the table: what each count costs, and what lost answers do to it."""

from __future__ import annotations

import pytest

from shared.ports.usage import UsageRow
from tests.contract.dynamodb_rig import DynamoRig
from tests.dynamodb.table import MemoryTable


@pytest.fixture
def rig() -> DynamoRig:
    return DynamoRig.in_memory()


@pytest.mark.parametrize("kind", ["throttled", "slow_down", "conflict", "unreachable"])
def test_what_the_table_turned_away_is_counted_at_the_next_try(rig: DynamoRig, memory: MemoryTable, kind: str) -> None:
    memory.fail(kind, op="update_item")
    rig.usage.record("k", "2026-02-01", "search", 5, 1)
    assert list(rig.usage.read("k", "2026-02-01", "2026-02-01")) == [UsageRow("2026-02-01", "search", 1, 5)]


@pytest.mark.parametrize(
    ("kind", "counted"), [("reply_lost", 1), ("connection_closed", 1), ("request_lost", 0), ("server_error", 0)]
)
def test_what_may_have_been_counted_is_not_counted_again(
    rig: DynamoRig, memory: MemoryTable, caplog: pytest.LogCaptureFixture, kind: str, counted: int
) -> None:
    memory.fail(kind, op="update_item")
    rig.usage.record("k", "2026-02-01", "search", 5, 1)
    assert sum(row.requests for row in rig.usage.read("k", "2026-02-01", "2026-02-01")) == counted
    assert "usage was not recorded" in caplog.text


def test_a_record_is_one_plain_write(rig: DynamoRig, memory: MemoryTable) -> None:
    memory.log.clear()
    rig.usage.record("k", "2026-02-01", "search", 5, 1)
    assert [(each.op, each.all_write_units) for each in memory.log] == [("update_item", 1)]


def test_a_call_is_counted_with_one_plain_write_that_time_removes(rig: DynamoRig, memory: MemoryTable) -> None:
    memory.log.clear()
    assert rig.usage.call("k", 29_000_000) == 1
    assert [(each.op, each.all_write_units) for each in memory.log] == [("update_item", 1)]
    item = rig.table.get(("U#k", "calls#29000000"))
    assert item is not None
    assert item["ttl"] == 29_000_000 * 60 + 3_600


@pytest.mark.parametrize("kind", ["reply_lost", "request_lost", "server_error"])
def test_a_call_that_cannot_be_counted_is_let_in(
    rig: DynamoRig, memory: MemoryTable, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    memory.fail(kind, op="update_item")
    assert rig.usage.call("k", 29_000_000) == 0
    assert "a call was not counted" in caplog.text
