"""Sizes and capacity units as the developer guide counts them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tests.dynamodb.values import Value

KIB = 1024
MAX_ITEM = 400 * KIB
MAX_TRANSACTION = 4 * KIB * KIB
MAX_PAGE = KIB * KIB
MAX_BATCH_GET = 16 * KIB * KIB
MAX_HASH_KEY = 2048
MAX_SORT_KEY = 1024


def text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


@lru_cache(maxsize=65_536)
def number_size(text: str) -> int:
    """One byte, one for a sign, and one for every two significant digits, pairs aligned on the decimal point."""
    whole, _, fraction = text.lstrip("-").partition(".")
    whole = whole.lstrip("0")
    fraction = fraction.rstrip("0")
    pairs = "0" * (len(whole) % 2) + whole + fraction + "0" * (len(fraction) % 2)
    while pairs.startswith("00"):
        pairs = pairs[2:]
    while pairs.endswith("00"):
        pairs = pairs[:-2]
    return 1 + len(pairs) // 2 + text.startswith("-")


def value_size(value: Value) -> int:
    ((kind, inner),) = value.items()
    if kind == "S":
        return text_size(inner)
    if kind == "N":
        return number_size(inner)
    if kind == "B":
        return len(inner)
    if kind == "M":
        return 3 + sum(1 + text_size(name) + value_size(each) for name, each in inner.items())
    if kind == "L":
        return 3 + sum(1 + value_size(each) for each in inner)
    return 1


def item_size(item: Mapping[str, Value]) -> int:
    size = 0
    for name, value in item.items():
        size += text_size(name) + value_size(value)
    return size


def write_units(size: int) -> int:
    return max(1, -(-size // KIB))


def read_units(size: int, consistent: bool) -> float:
    units = max(1, -(-size // (4 * KIB)))
    return float(units) if consistent else units / 2
