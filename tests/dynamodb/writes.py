"""Writes in two steps: `prepare` checks a request, `evaluate` says what it would change; nothing is applied here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.dynamodb.errors import ConditionFailed, Invalid
from tests.dynamodb.expressions import Bound, bind
from tests.dynamodb.log import Request
from tests.dynamodb.schema import INVALID, Table
from tests.dynamodb.sizes import MAX_ITEM, item_size, write_units
from tests.dynamodb.updates import targets, updated
from tests.dynamodb.values import Item, canonical_item

TOO_BIG = "Item size has exceeded the maximum allowed size"
UPDATE_TOO_BIG = "Item size to update has exceeded the maximum allowed size"


@dataclass
class Write:
    """One put, update, delete or check of one item; `item` is what a put puts."""

    kind: str
    table: Table
    key: Item
    bound: Bound
    item: Item | None
    want_old: bool

    @property
    def place(self) -> tuple[str, Any, Any]:
        return (self.table.name, *self.table.key_of(self.key))


@dataclass
class Change:
    """What became, or would become, of one item. `size` is the larger of the old and the new one's."""

    write: Write
    old: Item | None
    new: Item | None
    size: int
    new_size: int

    @property
    def changes(self) -> bool:
        return self.write.kind != "check" and self.old != self.new

    def charge(self, request: Request, factor: int) -> None:
        request.items += 1
        request.write_units += factor * write_units(self.size)
        if self.changes:
            request.written_items += 1
            for index in self.write.table.indexes.values():
                units = index.units(self.old, self.new)
                if units:
                    request.add_index_units({index.name: units})


def prepare(kind: str, table: Table, params: Mapping[str, Any]) -> Write:
    """Raises what the service refuses whatever the table holds."""
    bound = bind(params)
    item: Item | None = None
    if kind == "put":
        item = canonical_item(params["Item"])
        table.check_keys(item)
        table.check_index_keys(item)
        if item_size(item) > MAX_ITEM:
            raise Invalid(TOO_BIG)
        key = {name: item[name] for name in table.keys}
    else:
        key = table.key(params["Key"])
    if kind == "update":
        for path in targets(bound):
            if path[0] in table.keys:
                raise Invalid(f"{INVALID}Cannot update attribute {path[0]}. This attribute is part of the key")
    want_old = params.get("ReturnValuesOnConditionCheckFailure", "NONE") == "ALL_OLD"
    return Write(kind, table, key, bound, item, want_old)


def evaluate(write: Write) -> Change:
    """Raises `ConditionFailed`, or `Invalid` when the update does not fit the item."""
    table = write.table
    row = table.row(write.key)
    old = row.item if row else None
    if not write.bound.condition_holds("ConditionExpression", old or {}):
        raise ConditionFailed(old if write.want_old else None)
    old_size = row.size if row else 0
    if write.kind == "put":
        new = write.item
    elif write.kind == "update":
        new = updated(write.bound, old or write.key)
        table.check_index_keys(new)
    else:
        new = None if write.kind == "delete" else old
    new_size = item_size(new) if new is not None else 0
    if new_size > MAX_ITEM:
        raise Invalid(UPDATE_TOO_BIG)
    return Change(write, old, new, max(old_size, new_size), new_size)


def failed_units(write: Write) -> int:
    """A write whose condition fails costs what the existing item weighs."""
    row = write.table.row(write.key)
    return write_units(row.size if row else 0)
