"""Update expressions applied to an item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.dynamodb.errors import Invalid, Unsupported
from tests.dynamodb.expressions import Bound, at, check_apart
from tests.dynamodb.grammar import Node, Path
from tests.dynamodb.values import EXACT, Item, Value, canonical_number, copied, copied_item, number

BAD_PATH = "The document path provided in the update expression is invalid for update"
MISSING = "The provided expression refers to an attribute that does not exist in the item"
WRONG_TYPE = "An operand in the update expression has an incorrect data type"


def targets(bound: Bound) -> list[Path]:
    """The paths that the update writes. Raises when two overlap."""
    parsed = bound.parsed.get("UpdateExpression")
    paths = [bound.path(action[1]) for action in parsed.node[1]] if parsed else []
    check_apart(paths, "UpdateExpression")
    return paths


def updated(bound: Bound, old: Mapping[str, Value]) -> Item:
    """A new item; all operands are read from the old one."""
    item = copied_item(old)
    parsed = bound.parsed.get("UpdateExpression")
    actions = parsed.node[1] if parsed else ()
    writes = [(bound.path(action[1]), _result(bound, action, old)) for action in actions if action[0] != "remove"]
    removals = [bound.path(action[1]) for action in actions if action[0] == "remove"]
    for path, value in writes:
        _write(item, path, value)
    # From the end, so that the places of a list keep their numbers.
    for path in sorted(
        removals, key=lambda path: [part if isinstance(part, int) else -1 for part in path], reverse=True
    ):
        _remove(item, path)
    return item


def _result(bound: Bound, action: Node, old: Mapping[str, Value]) -> Value:
    if action[0] == "set":
        return copied(_evaluate(bound, action[2], old))
    if action[0] != "add":
        raise Unsupported(f"{action[0].upper()} in an update expression")
    amount = bound.values[action[2]]
    current = at(old, bound.path(action[1])) or {"N": "0"}
    if "N" not in amount:
        raise Invalid("Invalid UpdateExpression: Incorrect operand type for operator or function; operator: ADD")
    return _sum("+", current, amount)


def _evaluate(bound: Bound, node: Node, old: Mapping[str, Value]) -> Value:
    kind = node[0]
    if kind in ("+", "-"):
        return _sum(kind, _evaluate(bound, node[1], old), _evaluate(bound, node[2], old))
    if kind == "if_not_exists":
        return bound.operand(node[1], old) or _evaluate(bound, node[2], old)
    if kind == "list_append":
        lists = [_evaluate(bound, part, old) for part in node[1:]]
        if any("L" not in each for each in lists):
            raise Invalid(WRONG_TYPE)
        return {"L": lists[0]["L"] + lists[1]["L"]}
    if kind == "size":
        raise Invalid("Invalid UpdateExpression: The function is not allowed in an update expression; function: size")
    found = bound.operand(node, old)
    if found is None:
        raise Invalid(MISSING)
    return found


def _sum(sign: str, left: Value, right: Value) -> Value:
    if "N" not in left or "N" not in right:
        raise Invalid(WRONG_TYPE)
    a, b = number(left), number(right)
    return {"N": canonical_number(str(EXACT.add(a, b) if sign == "+" else EXACT.subtract(a, b)))}


def _parent(item: Item, path: Path) -> dict[str, Any] | list[Any] | None:
    """The map or list that holds the last part, or None when something on the way is missing or of another type."""
    if len(path) == 1:
        return item
    node = at(item, path[:-1])
    wanted = "L" if isinstance(path[-1], int) else "M"
    inner: dict[str, Any] | list[Any] | None = node.get(wanted) if node else None
    return inner


def _write(item: Item, path: Path, value: Value) -> None:
    parent, last = _parent(item, path), path[-1]
    if parent is None:
        raise Invalid(BAD_PATH)
    if isinstance(parent, dict):
        parent[str(last)] = value
    elif isinstance(last, int) and last < len(parent):
        parent[last] = value
    else:
        parent.append(value)


def _remove(item: Item, path: Path) -> None:
    parent, last = _parent(item, path), path[-1]
    if parent is None:
        raise Invalid(BAD_PATH)
    if isinstance(parent, dict):
        parent.pop(str(last), None)
    elif isinstance(last, int) and last < len(parent):
        del parent[last]
