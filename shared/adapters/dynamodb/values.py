"""Attribute values of DynamoDB's wire format, and requests that carry them.

Expressions name attributes as ``#name`` and values as ``:name``: the name after the sign is the attribute's own,
unless `names` gives another one, so that no reserved word can get in the way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

Item: TypeAlias = dict[str, Any]
"""An item in plain Python: str, int, bool, bytes, lists and dicts of them."""
Wire: TypeAlias = dict[str, Any]
"""The same in DynamoDB's form, or a request that holds it."""
Key: TypeAlias = tuple[str, str]
"""(partition key, sort key)."""

_NAME = re.compile(r"#\w+")


def to_wire(value: object) -> Wire:
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, bytes):
        return {"B": value}
    if isinstance(value, Mapping):
        return {"M": to_item(value)}
    if isinstance(value, list | tuple):
        return {"L": [to_wire(each) for each in value]}
    raise TypeError(f"{type(value).__name__} has no form in the table")


def from_wire(value: Wire) -> Any:
    ((kind, content),) = value.items()
    if kind == "N":
        return int(content)
    if kind == "M":
        return from_item(content)
    if kind == "L":
        return [from_wire(each) for each in content]
    return content


def to_item(values: Mapping[str, object]) -> Wire:
    """The item; values that are None are left out."""
    return {name: to_wire(value) for name, value in values.items() if value is not None}


def from_item(item: Mapping[str, Wire]) -> Item:
    return {name: from_wire(value) for name, value in item.items()}


def key_of(key: Key) -> Wire:
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}}


def named(names: Mapping[str, str], *expressions: str) -> Wire:
    """``ExpressionAttributeNames`` for the expressions, if they name any attribute."""
    found = {name for expression in expressions for name in _NAME.findall(expression)}
    return {"ExpressionAttributeNames": {name: names.get(name, name[1:]) for name in sorted(found)}} if found else {}


def valued(values: Mapping[str, object]) -> Wire:
    """``ExpressionAttributeValues``, if there are any."""
    return (
        {"ExpressionAttributeValues": {f":{name}": to_wire(value) for name, value in values.items()}} if values else {}
    )


def put(item: Wire, condition: str = "", **values: object) -> Wire:
    """A write of a whole item, part of a transaction."""
    request: Wire = {"Item": item, **named({}, condition), **valued(values)}
    if condition:
        request |= {"ConditionExpression": condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    return {"Put": request}


def update(
    key: Key, change: str, condition: str = "", names: Mapping[str, str] | None = None, **values: object
) -> Wire:
    """A change of one item, part of a transaction."""
    request: Wire = {
        "Key": key_of(key),
        "UpdateExpression": change,
        **named(names or {}, change, condition),
        **valued(values),
    }
    if condition:
        request["ConditionExpression"] = condition
    return {"Update": request}


def delete(key: Key, condition: str = "", **values: object) -> Wire:
    request: Wire = {"Key": key_of(key), **named({}, condition), **valued(values)}
    if condition:
        request["ConditionExpression"] = condition
    return {"Delete": request}
