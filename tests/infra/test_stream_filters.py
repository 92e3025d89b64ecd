"""The filters of the event source against the code that reads the stream: nothing anybody reacts to is filtered out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from infra.constructs.indexing import FILTERS
from shared.api.stream import task_of

VAULT = "01890000-0000-7000-8000-000000000001"
SORT_KEYS = ("M#m1", "B#b1", "B#b1#S0", "A#a1", "T#a1#000", "I#hash", "L#1", "D", "V", "K")
IMAGES: tuple[Mapping[str, Any], ...] = (
    {},
    {"state": {"S": "leased"}},
    {"state": {"S": "committed"}},
    {"state": {"S": "settled"}, "undoing": {"BOOL": True}},
    {"purge": {"N": "3"}},
)


def passes(pattern: Any, value: Any) -> bool:
    """As Lambda documents its patterns: objects by field, lists of what one may be, prefixes."""
    if isinstance(pattern, Mapping):
        return isinstance(value, Mapping) and all(
            name in value and passes(each, value[name]) for name, each in pattern.items()
        )
    return any(
        str(value).startswith(each["prefix"]) if isinstance(each, Mapping) else value == each for each in pattern
    )


def records() -> list[dict[str, Any]]:
    made = []
    for event, sort, image in product(("INSERT", "MODIFY", "REMOVE"), SORT_KEYS, IMAGES):
        partition = f"V#{VAULT}" if sort == "V" else f"K#{VAULT}" if sort == "K" else f"V#{VAULT}#1"
        change: dict[str, Any] = {"Keys": {"pk": {"S": partition}, "sk": {"S": sort}}}
        if event != "REMOVE":
            change["NewImage"] = image
        made.append({"eventName": event, "dynamodb": change})
    return made


def test_everything_that_asks_for_something_comes_through() -> None:
    wanted = [each for each in records() if task_of(each) is not None]
    assert len(wanted) > 10
    for each in wanted:
        assert any(passes(pattern, each) for pattern in FILTERS), each


def test_what_is_written_most_often_for_nobody_costs_no_invocation() -> None:
    """Counters, ledgers, marks of consolidated rows, idempotency records, keys, usage."""
    for sort, event in (("D", "MODIFY"), ("L#1", "MODIFY"), ("M#m1", "MODIFY"), ("I#hash", "INSERT"), ("K", "MODIFY")):
        for each in records():
            if (each["dynamodb"]["Keys"]["sk"]["S"], each["eventName"]) == (sort, event):
                assert not any(passes(pattern, each) for pattern in FILTERS), each
