"""Reads of one table: by key and by query."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ParamValidationError

from tests.dynamodb.errors import Invalid, Unsupported
from tests.dynamodb.expressions import Bound, bind, projected
from tests.dynamodb.grammar import Node
from tests.dynamodb.log import Request
from tests.dynamodb.schema import EMPTY_KEY, INVALID, Index, Partition, Table
from tests.dynamodb.sizes import MAX_PAGE, item_size, read_units
from tests.dynamodb.values import Item, Value, canonical_item, compare, copied_item, sortable

BAD_START = "The provided starting key is invalid"


def get(table: Table, params: Mapping[str, Any], request: Request, factor: int = 1) -> Item | None:
    bound = bind(params)
    paths = bound.paths("ProjectionExpression")
    row = table.row(table.key(params["Key"]))
    consistent = bool(params.get("ConsistentRead")) or factor > 1
    request.items += 1
    request.read_units += factor * read_units(row.size if row else 0, consistent)
    return projected(row.item, paths) if row else None


@dataclass(frozen=True)
class KeyRange:
    """Equality of the partition key, and at most one condition on the sort key."""

    hash: Value
    sign: str
    operands: tuple[Value, ...]

    def holds(self, value: Value) -> bool:
        if self.sign == "between":
            return compare(">=", value, self.operands[0]) and compare("<=", value, self.operands[1])
        if self.sign == "begins":
            return bool(sortable(value).startswith(sortable(self.operands[0])))
        return not self.sign or compare(self.sign, value, self.operands[0])

    def bounds(self, order: Sequence[Any], key: Callable[[Any], Any]) -> tuple[int, int]:
        """From which place to before which place of an ordered list the condition holds."""
        low, high = 0, len(order)
        if not self.sign:
            return low, high
        first, last = sortable(self.operands[0]), sortable(self.operands[-1])
        if self.sign == "begins":
            size = len(first)
            low = bisect_left(order, first, key=key)
            high = bisect_right(order, first, lo=low, key=lambda entry: key(entry)[:size])
            return low, high
        if self.sign in ("=", ">=", "between"):
            low = bisect_left(order, first, key=key)
        elif self.sign == ">":
            low = bisect_right(order, first, key=key)
        if self.sign in ("=", "<=", "between"):
            high = bisect_right(order, last, key=key)
        elif self.sign == "<":
            high = bisect_left(order, last, key=key)
        return low, high


def key_range(table: Table, bound: Bound, sort: str | None) -> KeyRange:
    if "KeyConditionExpression" not in bound.parsed:
        raise Invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
    node = bound.parsed["KeyConditionExpression"].node
    terms = node[1:] if node[0] == "and" else (node,)
    found: dict[str, tuple[str, tuple[Value, ...]]] = {}
    for term in terms:
        name, sign, operands = _term(bound, term)
        if name not in (table.hash, sort):
            raise Invalid(f"Query condition missed key schema element: {table.hash if name != sort else sort}")
        if name in found:
            raise Invalid("KeyConditionExpressions must only contain one condition per key")
        for operand in operands:
            ((kind, inner),) = operand.items()
            if kind != table.types[name]:
                raise Invalid(f"{INVALID}Condition parameter type does not match schema type")
            if inner in ("", b""):
                raise Invalid(f"{EMPTY_KEY}Key: {name}")
        found[name] = (sign, operands)
    if table.hash not in found:
        raise Invalid(f"Query condition missed key schema element: {table.hash}")
    if found[table.hash][0] != "=":
        raise Invalid("Query key condition not supported")
    sign, operands = found.get(sort or "", ("", ()))
    if sign == "between" and not compare("<=", operands[0], operands[1]):
        raise Invalid("The BETWEEN operator requires upper bound to be greater than or equal to lower bound")
    return KeyRange(found[table.hash][1][0], sign, operands)


def _term(bound: Bound, term: Node) -> tuple[str, str, tuple[Value, ...]]:
    kind = term[0]
    if kind == "compare" and term[1] != "<>":
        sign, left, rights = term[1], term[2], term[3:]
    elif kind == "between":
        sign, left, rights = kind, term[1], term[2:]
    elif kind == "begins":
        sign, left, rights = kind, ("path", term[1]), term[2:]
    else:
        raise Invalid("Invalid operator used in KeyConditionExpression")
    if left[0] != "path" or len(left[1]) != 1 or any(right[0] != "value" for right in rights):
        raise Invalid("KeyConditionExpressions cannot have conditions on nested attributes or between attributes")
    return str(bound.path(left[1])[0]), sign, tuple(bound.values[right[1]] for right in rights)


def query(table: Table, params: Mapping[str, Any], request: Request) -> dict[str, Any]:
    bound = bind(params)
    name = params.get("IndexName")
    if name is not None and name not in table.indexes:
        raise Invalid(f"The table does not have the specified index: {name}")
    index = table.indexes[name] if name else None
    limit = params.get("Limit")
    if limit is not None and limit < 1:
        raise ParamValidationError(report=f"Invalid value for parameter Limit, value: {limit}, valid min value: 1")
    wanted = key_range(table, bound, index.sort if index else table.sort)
    paths = bound.paths("ProjectionExpression")
    fetches = _fetches(table, bound, index, params)
    partition = table.partitions.get(sortable(wanted.hash), Partition())
    places = _places(table, partition, index, wanted, params)
    page: list[tuple[Item, Item]] = []
    read = fetched = 0
    more = False
    for place in places:
        row = partition.rows[place]
        entry = index.entry(row.item) if index else row.item
        assert entry is not None
        size = item_size(entry) if index else row.size
        if page and read + size > MAX_PAGE:
            more = True
            break
        page.append((row.item, entry))
        read += size
        fetched += row.size
        if len(page) == limit or read >= MAX_PAGE:
            more = True
            break
    consistent = bool(params.get("ConsistentRead"))
    request.items += len(page)
    request.read_units += read_units(read, consistent)
    kept = [(item if fetches else entry) for item, entry in page if bound.condition_holds("FilterExpression", entry)]
    if fetches:
        request.read_units += sum(read_units(item_size(item), consistent) for item, _ in page)
    answer: dict[str, Any] = {"Count": len(kept), "ScannedCount": len(page)}
    if params.get("Select") != "COUNT":
        answer["Items"] = [projected(item, paths) for item in kept]
    if more:
        keys = (*table.keys, index.sort) if index else table.keys
        answer["LastEvaluatedKey"] = copied_item({key: page[-1][0][key] for key in keys})
    return answer


def _fetches(table: Table, bound: Bound, index: Index | None, params: Mapping[str, Any]) -> bool:
    """Whether an index's rows have to be read from the table for what the request asks of them."""
    keys = {table.hash, index.sort if index else table.sort}
    # The keys of what is queried have their own expression.
    if bound.roots("FilterExpression") & keys:
        raise Invalid("Filter Expression can only contain non-primary key attributes")
    select = params.get("Select")
    if select not in (None, "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES"):
        raise Invalid(f"Select: {select}")
    if index is None or index.attributes is None:
        return False
    if bound.roots("FilterExpression") - index.attributes:
        raise Unsupported("a filter on attributes that the index does not project")
    return select == "ALL_ATTRIBUTES" or bool(bound.roots("ProjectionExpression") - index.attributes)


def _places(
    table: Table, partition: Partition, index: Index | None, wanted: KeyRange, params: Mapping[str, Any]
) -> Iterator[Any]:
    """Sort keys of the rows to walk, in the order of the walk and from the starting key on."""
    forward = params.get("ScanIndexForward", True)
    order: Sequence[Any] = partition.indexes.get(index.name, ()) if index else partition.order
    low, high = wanted.bounds(order, (lambda entry: entry[0]) if index else (lambda entry: entry))
    if (given := params.get("ExclusiveStartKey")) is not None:
        start = canonical_item(given)
        names = {*table.keys, index.sort} if index else set(table.keys)
        if start.keys() != names or any(start[name].keys() != {table.types[name]} for name in names):
            raise Invalid(BAD_START)
        sort = index.sort if index else table.sort
        if start[table.hash] != wanted.hash or (sort is not None and not wanted.holds(start[sort])):
            raise Invalid("The provided starting key is outside query boundaries based on provided conditions")
        place = table.key_of(start)[1]
        after: Any = (sortable(start[index.sort]), place) if index else place
        if forward:
            low = max(low, bisect_right(order, after))
        else:
            high = min(high, bisect_left(order, after))
    walk = range(low, high) if forward else range(high - 1, low - 1, -1)
    return (order[position][1] if index else order[position] for position in walk)
