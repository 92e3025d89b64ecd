"""Attribute values of the low-level API: ``{"S": …}``, N, B, BOOL, NULL, L and M."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from tests.dynamodb.errors import Invalid, Unsupported

Value = dict[str, Any]
Item = dict[str, Value]

MAX_DEPTH = 32
MAX_DIGITS = 38
EXACT = Context(prec=2 * MAX_DIGITS)
ORDERED = ("S", "N", "B")


@lru_cache(maxsize=65_536)
def canonical_number(text: str) -> str:
    """The text DynamoDB answers with: no exponent, no superfluous zeros."""
    try:
        number = EXACT.create_decimal(text)
    except InvalidOperation:
        raise Invalid("The parameter cannot be converted to a numeric value: " + text) from None
    if not number.is_finite():
        raise Invalid("The parameter cannot be converted to a numeric value: " + text)
    number = number.normalize(EXACT)
    if not number:
        return "0"
    if len(number.as_tuple().digits) > MAX_DIGITS:
        raise Invalid("Attempting to store more than 38 significant digits in a Number")
    if not -130 <= number.adjusted() <= 125:
        raise Invalid("Number overflow or underflow")
    return format(number, "f")


def canonical(value: Any, depth: int = 1) -> Value:
    """A validated copy. Equal values of DynamoDB are equal as Python objects afterwards."""
    if not isinstance(value, Mapping) or len(value) != 1:
        raise Invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
    ((kind, inner),) = value.items()
    if kind == "S" and isinstance(inner, str):
        return {"S": inner}
    if kind == "N" and isinstance(inner, str):
        return {"N": canonical_number(inner)}
    if kind == "B" and isinstance(inner, (bytes, bytearray)):
        return {"B": bytes(inner)}
    if kind == "BOOL" and isinstance(inner, bool):
        return {"BOOL": inner}
    if kind == "NULL" and inner is True:
        return {"NULL": True}
    if depth >= MAX_DEPTH and kind in ("L", "M"):
        raise Invalid("Nesting Levels have exceeded supported limits")
    if kind == "M" and isinstance(inner, Mapping):
        return {"M": {_name(name): canonical(each, depth + 1) for name, each in inner.items()}}
    if kind == "L" and isinstance(inner, (list, tuple)):
        return {"L": [canonical(each, depth + 1) for each in inner]}
    raise Unsupported(f"attribute value of type {kind} holding {type(inner).__name__}")


def canonical_item(item: Mapping[str, Mapping[str, Any]]) -> Item:
    return {_name(name): canonical(value) for name, value in item.items()}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise Unsupported(f"attribute name {name!r}")
    return name


def copied(value: Value) -> Value:
    """A copy that shares nothing mutable."""
    ((kind, inner),) = value.items()
    if kind == "M":
        return {"M": {name: copied(each) for name, each in inner.items()}}
    if kind == "L":
        return {"L": [copied(each) for each in inner]}
    return {kind: inner}


def copied_item(item: Mapping[str, Value]) -> Item:
    return {name: copied(value) for name, value in item.items()}


def number(value: Value) -> Decimal:
    return Decimal(value["N"])


def sortable(value: Value) -> Any:
    """A key value as Python orders it: text by code points, which is the order of its UTF-8 bytes."""
    ((kind, inner),) = value.items()
    return Decimal(inner) if kind == "N" else inner


def less(left: Value, right: Value) -> bool | None:
    """None when the two cannot be ordered."""
    ((kind, a),) = left.items()
    ((other, b),) = right.items()
    if kind != other or kind not in ORDERED:
        return None
    return bool(Decimal(a) < Decimal(b)) if kind == "N" else bool(a < b)


def compare(sign: str, left: Value | None, right: Value | None) -> bool:
    """A missing operand makes every comparison false except ``<>``."""
    if sign == "<>":
        return left != right or left is None
    if left is None or right is None:
        return False
    if sign == "=":
        return left == right
    if sign in (">", "<="):
        before = less(right, left)
        return before is not None and before == (sign == ">")
    before = less(left, right)
    return before is not None and before == (sign == "<")
