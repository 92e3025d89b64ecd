"""What the DynamoDB protocol costs, counted request by request."""

from __future__ import annotations

import pytest

from shared.domain.selection import Budget
from tests.bench.dynamodb import (
    ITEM_BYTES,
    UNITS_TARGET,
    Counted,
    checkout_writes,
    ingest_requests,
    life,
)
from tests.contract.rows import NOW
from tests.dynamodb.log import total
from tests.dynamodb.sizes import item_size


@pytest.mark.parametrize("sources", [10, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_checkout_writes_three_items_in_one_request(sources: int) -> None:
    """The header, the list of its sources, the ledger."""
    spent = checkout_writes(sources)
    assert (spent.items, spent.written_items) == (3, 3)


def test_the_debt_is_one_read_of_one_item() -> None:
    counted = Counted()
    counted.ingest(counted.rows(60), 30)
    counted.spent()
    assert counted.store.debt(counted.vault).raw_units == 60
    assert [(request.op, request.items) for request in counted.spent()] == [("get_item", 1)]


@pytest.mark.parametrize(
    ("messages", "requests", "items"),
    [
        # The rows with the counters; then the debt is read.
        (1, 2, 2),
        (96, 2, 97),
        # Counters, job and part; job and part are read; 98 rows, then 2 with the end of job and part; the debt.
        (100, 6, 3 + 100 + 5),
        # The same with 98 rows five times, and ten.
        (500, 10, 3 + 5 * 100 + 10 + 3),
    ],
)
def test_the_requests_of_an_ingest(messages: int, requests: int, items: int) -> None:
    spent = ingest_requests(messages)
    assert len(spent) == requests
    assert total(spent).written_items == items


@pytest.mark.parametrize("hits", [1, 10, 50])
def test_the_rows_of_a_search_and_the_debt_are_one_read(hits: int) -> None:
    counted = Counted()
    rows = counted.rows(60)
    counted.ingest(rows, 60)
    counted.spent()
    found, debt = counted.store.get_with_debt(counted.vault, [row.id for row in rows[:hits]])
    assert (list(found.values()), debt.raw_units) == (rows[:hits], 60)
    assert [request.op for request in counted.spent()] == ["batch_get_item"]


def test_a_commit_writes_each_source_once() -> None:
    """The flip, then chunks of 98 rows; each moves header and counters, the last one takes the ledger's entry."""
    counted = Counted()
    counted.ingest(counted.rows(300), 90)
    counted.spent()
    assert counted.consolidate(Budget()) == 300
    written = [request.written_items for request in counted.spent() if request.written_items]
    checkout, flip, *chunks = written
    assert checkout == flip == 3
    rows_and_reflections = 300 + 4
    assert sum(chunks) == rows_and_reflections + 2 * len(chunks) + 2
    assert len(chunks) == 4


def test_a_memory_costs_at_most_twelve_write_units_in_all_its_life(request: pytest.FixtureRequest) -> None:
    together, alone = life(by=25, memories=500), life(by=1, memories=100)
    assert together.units <= UNITS_TARGET
    # By hand: an item and its three entries, its mark and the entry of the pool that goes: 2 + 3 + 2 + 1.
    assert 8 < together.units < 9
    # Two more for the counters, by each message on its own.
    assert alone.ingest == pytest.approx(7)
    cents = {
        "hundredths in ingests of 25": round(100 * together.units),
        "in ingests of 1": round(100 * alone.units),
        "in ingests of 25 with index entries counted twice": round(100 * together.doubled),
    }
    request.node.user_properties.append(("write units of a memory", cents))


def test_the_rows_measured_are_as_heavy_as_they_say() -> None:
    counted = Counted()
    (row,) = counted.rows(1)
    counted.store.append(counted.vault, [row], None, NOW)
    (item,) = [item for item in counted.table.snapshot("counted") if item["sk"]["S"].startswith("M#")]
    assert item_size(item) == ITEM_BYTES
