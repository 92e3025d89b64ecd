"""A table's keys and local indexes, and its rows in order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.dynamodb.errors import Invalid, Refused
from tests.dynamodb.sizes import MAX_HASH_KEY, MAX_SORT_KEY, item_size, text_size, write_units
from tests.dynamodb.values import Item, Value, canonical, sortable

INVALID = "One or more parameter values were invalid: "
EMPTY_KEY = (
    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an"
    " empty string value. "
)
NOT_THE_KEY = "The provided key element does not match the schema"


@dataclass(frozen=True)
class Index:
    """A local secondary index; `attributes` is what it projects, None for everything."""

    name: str
    sort: str
    attributes: frozenset[str] | None

    def entry(self, item: Mapping[str, Value] | None) -> Item | None:
        """What the index holds of an item, or None: the index is sparse."""
        if item is None or self.sort not in item:
            return None
        if self.attributes is None:
            return dict(item)
        return {name: value for name, value in item.items() if name in self.attributes}

    def units(self, old: Mapping[str, Value] | None, new: Mapping[str, Value] | None) -> int:
        """Write units of a change: nothing when the entry stays as it is, twice when its sort key moves."""
        before, after = self.entry(old), self.entry(new)
        if before == after:
            return 0
        if before is None or after is None:
            return write_units(item_size(before or after or {}))
        if before[self.sort] != after[self.sort]:
            return write_units(item_size(before)) + write_units(item_size(after))
        return write_units(max(item_size(before), item_size(after)))


@dataclass
class Row:
    item: Item
    size: int


@dataclass
class Partition:
    """The rows of one partition key, and what is in order: sort keys, and (index key, sort key) by index name."""

    rows: dict[Any, Row] = field(default_factory=dict)
    order: list[Any] = field(default_factory=list)
    indexes: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)


@dataclass
class Table:
    name: str
    hash: str
    sort: str | None
    types: Mapping[str, str]
    indexes: Mapping[str, Index]
    streamed: bool
    partitions: dict[Any, Partition] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.hash,) if self.sort is None else (self.hash, self.sort)

    def key_of(self, item: Mapping[str, Value]) -> tuple[Any, Any]:
        return sortable(item[self.hash]), 0 if self.sort is None else sortable(item[self.sort])

    def key(self, given: Mapping[str, Mapping[str, Any]]) -> Item:
        """The validated key of a request that names one."""
        if given.keys() != set(self.keys):
            raise Invalid(NOT_THE_KEY)
        key = {name: canonical(value) for name, value in given.items()}
        self.check_keys(key, NOT_THE_KEY)
        return key

    def check_keys(self, item: Mapping[str, Value], mismatch: str = "") -> None:
        """Presence, type and size of the primary key in an item."""
        for name in self.keys:
            if name not in item:
                raise Invalid(f"{INVALID}Missing the key {name} in the item")
            ((kind, inner),) = item[name].items()
            expected = self.types[name]
            if kind != expected:
                raise Invalid(mismatch or f"{INVALID}Type mismatch for key {name} expected: {expected} actual: {kind}")
            if inner in ("", b""):
                raise Invalid(f"{EMPTY_KEY}Key: {name}")
            self._check_length(kind, inner, name == self.hash)

    def check_index_keys(self, item: Mapping[str, Value]) -> None:
        for index in self.indexes.values():
            if index.sort not in item:
                continue
            ((kind, inner),) = item[index.sort].items()
            expected = self.types[index.sort]
            if kind != expected:
                raise Invalid(
                    f"{INVALID}Type mismatch for Index Key {index.sort} Expected: {expected} Actual: {kind}"
                    f" IndexName: {index.name}"
                )
            if inner in ("", b""):
                raise Invalid(f"{EMPTY_KEY}IndexName: {index.name}, IndexKey: {index.sort}")
            self._check_length(kind, inner, hash_key=False)

    @staticmethod
    def _check_length(kind: str, inner: Any, hash_key: bool) -> None:
        limit = MAX_HASH_KEY if hash_key else MAX_SORT_KEY
        size = 0 if kind == "N" else text_size(inner) if kind == "S" else len(inner)
        if size > limit:
            which = "hash" if hash_key else "range"
            raise Invalid(f"{INVALID}Aggregated size of all {which} keys has exceeded the size limit of {limit} bytes")

    def row(self, item: Mapping[str, Value]) -> Row | None:
        """The row with this item's key."""
        hash_key, sort_key = self.key_of(item)
        partition = self.partitions.get(hash_key)
        return None if partition is None else partition.rows.get(sort_key)

    def replace(self, key: Mapping[str, Value], new: Item | None, size: int) -> None:
        """Puts `new` in the place of what has this key, or takes that away."""
        hash_key, sort_key = self.key_of(key)
        partition = self.partitions.setdefault(hash_key, Partition())
        old = partition.rows.get(sort_key)
        if new is None:
            if old is not None:
                del partition.rows[sort_key]
                del partition.order[bisect_left(partition.order, sort_key)]
        else:
            if old is None:
                insort(partition.order, sort_key)
            partition.rows[sort_key] = Row(new, size)
        for index in self.indexes.values():
            before = old.item.get(index.sort) if old else None
            after = new.get(index.sort) if new else None
            if before == after:
                continue
            entries = partition.indexes.setdefault(index.name, [])
            if before is not None:
                del entries[bisect_left(entries, (sortable(before), sort_key))]
            if after is not None:
                insort(entries, (sortable(after), sort_key))
        if not partition.rows:
            del self.partitions[hash_key]

    def items(self) -> Iterable[Item]:
        """Every item, partitions in order of their keys."""
        for hash_key in sorted(self.partitions):
            partition = self.partitions[hash_key]
            for sort_key in partition.order:
                yield partition.rows[sort_key].item


def table_from(params: Mapping[str, Any]) -> Table:
    """The table that a ``create_table`` request describes."""
    hash_key, sort_key = _key_names(params["KeySchema"])
    types = {each["AttributeName"]: each["AttributeType"] for each in params["AttributeDefinitions"]}
    indexes = {}
    for each in params.get("LocalSecondaryIndexes", ()):
        index_hash, sort = _key_names(each["KeySchema"])
        if index_hash != hash_key or sort is None or sort_key is None:
            raise Invalid(f"{INVALID}Table KeySchema and the index's do not have the same leading hash key")
        kind = each["Projection"]["ProjectionType"]
        more = each["Projection"].get("NonKeyAttributes", ())
        own = None if kind == "ALL" else frozenset((hash_key, sort_key, sort, *more))
        indexes[each["IndexName"]] = Index(each["IndexName"], sort, own)
    used = {hash_key, *([sort_key] if sort_key else []), *(index.sort for index in indexes.values())}
    if used != types.keys():
        raise Invalid(f"{INVALID}Some AttributeDefinitions are not used, or some keys are not defined")
    stream = params.get("StreamSpecification", {"StreamEnabled": False})
    if stream["StreamEnabled"] and stream["StreamViewType"] != "NEW_AND_OLD_IMAGES":
        raise Refused("ValidationException", "This table's streams hold new and old images")
    return Table(params["TableName"], hash_key, sort_key, types, indexes, stream["StreamEnabled"])


def _key_names(schema: Iterable[Mapping[str, str]]) -> tuple[str, str | None]:
    names = {each["KeyType"]: each["AttributeName"] for each in schema}
    return names["HASH"], names.get("RANGE")
