"""What the protocol costs on DynamoDB, counted on the table in memory: requests, written items, write units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from shared.adapters.dynamodb.layout import SCHEMA, memory_item
from shared.adapters.dynamodb.store import DynamoStore
from shared.adapters.dynamodb.table import Table
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget
from shared.ports.store import CheckedOut
from tests.bench.report import Options, Row
from tests.contract.rows import MINUTE, NOW, Maker
from tests.dynamodb.log import Request, total
from tests.dynamodb.sizes import item_size
from tests.dynamodb.table import MemoryTable

NAME = "counted"
ITEM_BYTES = 900
MEMORIES, BATCH, REFLECTIONS = 2_500, 100, 4
UNITS_TARGET = 12
WRITES = frozenset(("put_item", "update_item", "batch_write_item", "transact_write_items"))


class Counted:
    """A store on a fresh table, and what its requests cost."""

    def __init__(self) -> None:
        tokens = count(1)
        self.table = MemoryTable()
        self.table.create_table(TableName=NAME, **SCHEMA)
        table = Table(self.table, NAME, token=lambda: f"token-{next(tokens)}")
        self.store = DynamoStore(table, lambda vault: None, lambda vault_id, below: None)
        self.vault = VaultRef("counted", 1)
        self.make = Maker()

    def spent(self) -> list[Request]:
        """The requests since the last call."""
        spent = list(self.table.log)
        self.table.log.clear()
        return spent

    def rows(self, number: int, size: int = ITEM_BYTES) -> list[Memory]:
        """Rows of one session whose items weigh `size` bytes in all."""
        rows = [self.make.raw("x", date_ms=NOW + place, session="session-0001", tokens=200) for place in range(number)]
        return [replace(row, text="x" * (size + 1 - item_size(memory_item(self.vault, row)))) for row in rows]

    def ingest(self, rows: Sequence[Memory], by: int) -> None:
        for start in range(0, len(rows), by):
            self.store.append(self.vault, rows[start : start + by], None, NOW)

    def consolidate(self, budget: Budget, reflections: int = REFLECTIONS) -> int:
        """Check out and commit one batch; how many rows it held, 0 when nothing was free."""
        found = self.store.checkout(self.vault, 1, budget, self.make.lease())
        if not isinstance(found, CheckedOut):
            return 0
        entries = [replace(entry, text="y" * 600) for entry in self.make.entries(*[5] * reflections)]
        self.store.commit(self.vault, found.batch.id, entries, NOW + MINUTE)
        return found.batch.count


@dataclass(frozen=True)
class Life:
    """Write units of a memory from its ingest to its settled batch. An index entry counts like any write outside a
    transaction; `index` is how many units of the sum are such."""

    ingest: float
    consolidation: float
    index: float

    @property
    def units(self) -> float:
        return self.ingest + self.consolidation

    @property
    def doubled(self) -> float:
        """The units if index entries written by a transaction counted twice, as the items themselves do."""
        return self.units + self.index


def life(by: int, memories: int = MEMORIES, batch: int = BATCH) -> Life:
    """`by` memories an ingest, `batch` a consolidation."""
    counted = Counted()
    rows = counted.rows(memories)
    counted.ingest(rows, by)
    ingest = total(counted.spent())
    taken = 0
    while some := counted.consolidate(Budget(max_rows=batch)):
        taken += some
    assert taken == memories
    rest = total(counted.spent())
    index = sum(ingest.index_units.values()) + sum(rest.index_units.values())
    return Life(ingest.all_write_units / memories, rest.all_write_units / memories, index / memories)


def checkout_writes(sources: int) -> Request:
    """What the checkout of so many rows writes."""
    counted = Counted()
    counted.ingest(counted.rows(sources, 400), 90)
    counted.spent()
    found = counted.store.checkout(counted.vault, 1, Budget(), counted.make.lease())
    assert isinstance(found, CheckedOut)
    assert found.batch.count == sources
    return total(request for request in counted.spent() if request.op in WRITES)


def ingest_requests(messages: int) -> list[Request]:
    counted = Counted()
    rows = counted.rows(messages)
    counted.store.append(counted.vault, rows, None, NOW)
    return counted.spent()


def read_requests(hits: int) -> dict[str, list[Request]]:
    """What the debt, and the rows of so many hits, are read with."""
    counted = Counted()
    rows = counted.rows(hits)
    counted.ingest(rows, 50)
    counted.spent()
    counted.store.debt(counted.vault)
    debt = counted.spent()
    counted.store.get(counted.vault, [row.id for row in rows])
    return {"the debt": debt, f"the rows of {hits} hits": counted.spent()}


def run(options: Options) -> list[Row]:
    memories = 500 if options.quick else MEMORIES
    lives = {by: life(by, memories) for by in (25, 1)}
    table = []
    for by, each in lives.items():
        table.append(
            Row(
                f"write units of a memory's life, {ITEM_BYTES} bytes, ingests of {by}, batches of {BATCH}",
                f"{each.units:.2f}",
                f"ingest {each.ingest:.2f}, consolidation {each.consolidation:.2f}",
                f"{each.doubled:.2f} if index entries counted twice",
                *((f"≤ {UNITS_TARGET}", each.units <= UNITS_TARGET) if by == 25 else ()),
            )
        )
    many = 1_000 if options.quick else 10_000
    small, large = checkout_writes(10), checkout_writes(many)
    table.append(
        Row(
            f"items written by a checkout of 10 and of {many:,} rows",
            f"{small.written_items} and {large.written_items}",
            f"{small.all_write_units} and {large.all_write_units} write units",
            "",
            "3 and 3",
            small.written_items == large.written_items == 3,
        )
    )
    for messages in (1, 100, 500):
        requests = ingest_requests(messages)
        writes = total(requests)
        table.append(
            Row(
                f"requests of an ingest of {messages} messages",
                f"{len(requests)}",
                f"{writes.written_items} items, {writes.all_write_units} write units",
            )
        )
    for what, requests in read_requests(50).items():
        table.append(Row(f"requests of {what}", f"{len(requests)}", "", "", "≤ 1", len(requests) <= 1))
    return table


TITLE = "Writes and requests on DynamoDB"
NOTE = (
    "Counted on the table in memory, which charges as the developer guide says: a transaction doubles an"
    " item's units, an index entry costs its own."
)
