"""Where the cells of the fault matrix are played: vaults in one table on ministack, copied item by item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from shared.adapters.dynamodb.directory import DynamoDirectory
from shared.adapters.dynamodb.layout import SCHEMA
from shared.adapters.dynamodb.store import DynamoStore
from shared.adapters.dynamodb.table import REQUEST_SECONDS, VERB_SECONDS, Patience, Table
from shared.adapters.dynamodb.usage import DynamoUsage
from shared.adapters.dynamodb.values import from_item, to_item
from shared.domain.errors import StaleEpoch
from shared.domain.memory import VaultRef
from shared.ports.store import Change, MemoryStore
from tests.contract.rows import everything
from tests.faults.hook import Hook
from tests.simulation.audit import audit

NAME = "faults"
EPOCHS = (1, 2)
Item = dict[str, Any]
Content = dict[str, dict[str, Item]]
"""By partition and sort key: the items' attributes. Wherever the vault's name stands in them, there is `SELF`."""
SELF = "@"
PARTITIONS = (f"V#{SELF}", *(f"V#{SELF}#{epoch}" for epoch in EPOCHS), f"K#{SELF}", f"U#{SELF}", f"N#{SELF}")


class Clock:
    """Time that passes only while somebody pauses."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def patience(self, seconds: float) -> Patience:
        return Patience(seconds, self.read, self.sleep, lambda: 0.9)


@dataclass(frozen=True)
class Site:
    """One process of the service: its store, directory and meter, and the vault that the cell is about."""

    vault: VaultRef
    store: DynamoStore
    directory: DynamoDirectory
    usage: DynamoUsage

    @property
    def next_content(self) -> VaultRef:
        return VaultRef(self.vault.vault_id, self.vault.epoch + 1)


class Streamed:
    """The table's own stream carries every write by itself; so no row can be missing from it."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def pending(self, vault: VaultRef, limit: int) -> tuple[Change, ...]:
        return tuple(Change(number, row.id) for number, row in enumerate(everything(self._store, vault)))

    def acknowledge(self, vault: VaultRef, changes: Sequence[Change]) -> None:
        pass

    def touched(self) -> tuple[VaultRef, ...]:
        return ()


class FaultStage:
    """`client` is watched by `hook`; `plain` is the rest of the world."""

    def __init__(self, client: Any, plain: Any) -> None:
        self.hook, self._client, self.plain = Hook(client), client, plain
        self.clock = Clock()
        self._numbers = count(1)
        self._passed: set[str] = set()
        plain.create_table(TableName=NAME, **SCHEMA)

    def site(self, vault_id: str = "", *, watched: bool = False, waits: bool = False) -> Site:
        """A process with nothing in its memory. Its requests meet the hook if it is `watched`; it `waits` for others
        in real time only if there are any.
        """
        patience = (None, None) if waits else (self.clock.patience(REQUEST_SECONDS), self.clock.patience(VERB_SECONDS))
        table = Table(self._client if watched else self.plain, NAME, *patience)
        directory = DynamoDirectory(table)
        store = DynamoStore(table, lambda vault: None, directory.purged)
        vault = VaultRef(vault_id or f"vault-{next(self._numbers)}.", 1)
        return Site(vault, store, directory, DynamoUsage(table, lambda: 0.0))

    def content(self, vault_id: str, partitions: Iterable[str] = PARTITIONS) -> Content:
        """Everything under the vault's name, or some of it."""
        found = {name: self._partition(name.replace(SELF, vault_id), vault_id) for name in partitions}
        return {name: items for name, items in found.items() if items}

    def _partition(self, partition: str, vault_id: str) -> dict[str, Item]:
        request: dict[str, Any] = {
            "TableName": NAME,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": partition}},
            "ConsistentRead": True,
        }
        items: dict[str, Item] = {}
        while True:
            answer = self.plain.query(**request)
            for found in map(from_item, answer["Items"]):
                item = _renamed(found, vault_id, SELF)
                items[item["sk"]] = {name: value for name, value in item.items() if name not in ("pk", "sk")}
            if "LastEvaluatedKey" not in answer:
                return items
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def copy(self, content: Content) -> str:
        """The content again, under the name of a fresh vault."""
        vault_id = f"vault-{next(self._numbers)}."
        items = [
            to_item(_renamed({"pk": name, "sk": sort, **item}, SELF, vault_id))
            for name, partition in content.items()
            for sort, item in partition.items()
        ]
        for start in range(0, len(items), 25):
            puts = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
            assert not self.plain.batch_write_item(RequestItems={NAME: puts})["UnprocessedItems"]
        return vault_id

    def reap(self, vault_id: str, now_s: float, takes: Callable[[str], bool]) -> Callable[[], int]:
        """What deletion by time to live does in the first content, should it come by at that moment. It comes to some
        items sooner than to others: `takes` says by the sort key to which it has come.
        """

        def act() -> int:
            items = self._partition(f"V#{vault_id}#1", vault_id)
            gone = [sort for sort, item in items.items() if takes(sort) and item.get("ttl", now_s) < now_s]
            for sort in gone:
                self.plain.delete_item(TableName=NAME, Key=to_item({"pk": f"V#{vault_id}#1", "sk": sort}))
            return len(gone)

        return act

    def drive(self, site: Site) -> None:
        """What the change stream sets going: whoever began something big, it is finished."""
        for epoch in EPOCHS:
            vault = VaultRef(site.vault.vault_id, epoch)
            items = self._partition(f"V#{vault.vault_id}#{epoch}", vault.vault_id)
            try:
                for sort, item in items.items():
                    if sort.startswith("A#"):
                        site.store.finish(vault, sort.removeprefix("A#"))
                    elif is_header(sort) and (item["state"] == "committed" or "undoing" in item):
                        site.store.heal(vault, sort.removeprefix("B#"))
            except StaleEpoch:
                continue

    def audited(self, site: Site) -> None:
        """The promises, looked for in both contents, which are consumed: not in an import before its end, and not
        again in what kept them before.
        """
        for epoch in EPOCHS:
            vault = VaultRef(site.vault.vault_id, epoch)
            items = self._partition(f"V#{vault.vault_id}#{epoch}", vault.vault_id)
            check_counts(items)
            name = repr(sorted(items.items()))
            unfinished = epoch > 1 and "imported" not in items.get("D", {})
            if "D" not in items or "sealed" in items["D"] or unfinished or name in self._passed:
                continue
            batch_ids = [sort.removeprefix("B#") for sort in items if is_header(sort)]
            audit(site.store, Streamed(site.store), vault, batch_ids)
            self._passed.add(name)


def _renamed(item: Item, old: str, new: str) -> Item:
    return {name: value.replace(old, new) if isinstance(value, str) else value for name, value in item.items()}


def is_header(sort: str) -> bool:
    return sort.startswith("B#") and "#S" not in sort


def check_counts(items: Mapping[str, Item]) -> None:
    """At every moment, whoever died: the counters are a recount of the rows, and no lease holds a row twice."""
    rows = {sort: item for sort, item in items.items() if sort.startswith("M#")}
    counters = items.get("D", {})
    free = [item for item in rows.values() if "pool" in item]
    raw, reflections = ([item for item in free if item["t"] == tier] for tier in (1, 2))
    counted = {
        "raw_units": len(raw),
        "raw_tokens": sum(item["k"] for item in raw),
        "tier2_count": len(reflections),
        "tier2_importance": sum(item["i"] for item in reflections),
        "tier2_tokens": sum(item["k"] for item in reflections),
        "tokens": sum(item["k"] for item in rows.values()),
        **{f"rows{tier}": sum(item["t"] == tier for item in rows.values()) for tier in (1, 2, 3)},
    }
    if counters.get("sealed") != 2:
        assert {name: counters.get(name, 0) for name in counted} == counted, "the counters are not a recount"
    assert all(("pool" in item) == (item["t"] < 3 and "by" not in item) for item in rows.values())
    listed = {
        sort.removesuffix("#S0"): [item["ids"][at : at + 16].hex() for at in range(0, len(item["ids"]), 16)]
        for sort, item in items.items()
        if sort.endswith("#S0")
    }
    live = [name for name, item in items.items() if is_header(name) and item["state"] == "leased"]
    held = [row for name in live for row in listed.get(name, ())]
    assert len(held) == len(set(held)), "two live leases hold one row"
