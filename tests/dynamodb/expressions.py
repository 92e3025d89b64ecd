"""Expressions bound to a request's names and values: conditions, filters, key conditions and projections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.dynamodb import grammar
from tests.dynamodb.errors import Invalid
from tests.dynamodb.grammar import Node, Parsed, Path
from tests.dynamodb.sizes import text_size
from tests.dynamodb.values import Item, Value, canonical, compare, copied


@dataclass(frozen=True)
class Bound:
    """A request's expressions by the parameter that held each, with what their placeholders stand for."""

    parsed: Mapping[str, Parsed]
    names: Mapping[str, str]
    values: Mapping[str, Value]

    def condition_holds(self, slot: str, item: Mapping[str, Value]) -> bool:
        """True when there is no such expression."""
        parsed = self.parsed.get(slot)
        return parsed is None or self.holds(parsed.node, item)

    def path(self, path: Path) -> Path:
        return tuple(self.names[part] if isinstance(part, str) and part[0] == "#" else part for part in path)

    def holds(self, node: Node, item: Mapping[str, Value]) -> bool:
        kind = node[0]
        if kind == "and":
            return self.holds(node[1], item) and self.holds(node[2], item)
        if kind == "or":
            return self.holds(node[1], item) or self.holds(node[2], item)
        if kind == "not":
            return not self.holds(node[1], item)
        if kind == "compare":
            return compare(node[1], self.operand(node[2], item), self.operand(node[3], item))
        if kind == "between":
            value, low, high = (self.operand(part, item) for part in node[1:])
            return compare(">=", value, low) and compare("<=", value, high)
        if kind == "in":
            value = self.operand(node[1], item)
            return any(compare("=", value, self.operand(choice, item)) for choice in node[2])
        found = at(item, self.path(node[1]))
        if kind == "exists":
            return found is not None
        if kind == "missing":
            return found is None
        return self._function(kind, found, self.operand(node[2], item))

    def _function(self, kind: str, found: Value | None, wanted: Value | None) -> bool:
        if kind == "begins" and wanted is not None and not wanted.keys() & {"S", "B"}:
            raise Invalid("Invalid ConditionExpression: Incorrect operand type for operator or function; begins_with")
        if found is None or wanted is None:
            return False
        ((held, inner),) = found.items()
        ((sought, text),) = wanted.items()
        if kind == "type":
            return bool(held == text)
        if kind == "begins":
            return held == sought and bool(inner.startswith(text))
        if held in ("S", "B"):
            return held == sought and text in inner
        return held == "L" and wanted in inner

    def operand(self, node: Node, item: Mapping[str, Value]) -> Value | None:
        kind, what = node
        if kind == "value":
            return self.values[what]
        found = at(item, self.path(what))
        if kind == "size":
            return None if found is None else {"N": str(_size(found))}
        return found

    def paths(self, slot: str) -> tuple[Path, ...]:
        """The resolved document paths of a projection; empty when there is none."""
        parsed = self.parsed.get(slot)
        paths = () if parsed is None else tuple(self.path(path) for path in parsed.node[1])
        check_apart(paths, slot)
        return paths

    def roots(self, slot: str) -> set[str]:
        """The top-level attributes that an expression reads."""
        parsed = self.parsed.get(slot)
        return {self.names.get(name, name) for name in parsed.roots} if parsed else set()


def check_apart(paths: Sequence[Path], slot: str) -> None:
    """No path begins another one, and none is there twice."""
    for position, path in enumerate(paths):
        for other in paths[position + 1 :]:
            shorter = min(len(path), len(other))
            if path[:shorter] == other[:shorter]:
                raise Invalid(
                    f"Invalid {slot}: Two document paths overlap with each other; must remove or rewrite one of these"
                    f" paths; path one: {list(path)}, path two: {list(other)}"
                )


def _size(value: Value) -> int:
    ((kind, inner),) = value.items()
    if kind == "S":
        return text_size(inner)
    if kind in ("B", "L", "M"):
        return len(inner)
    raise Invalid(f"Invalid operand type for operator or function; operator or function: size, operand type: {kind}")


def at(item: Mapping[str, Value], path: Path) -> Value | None:
    """What the document path leads to, or None."""
    node = item.get(str(path[0]))
    for part in path[1:]:
        if node is None:
            return None
        if isinstance(part, int):
            inner = node.get("L")
            node = inner[part] if inner is not None and part < len(inner) else None
        else:
            node = node.get("M", {}).get(part)
    return node


def projected(item: Mapping[str, Value], paths: tuple[Path, ...]) -> Item:
    """A copy of what the paths lead to, or of everything when there are none."""
    if not paths:
        return {name: copied(value) for name, value in item.items()}
    answer: Item = {}
    for path in paths:
        found = at(item, path)
        if found is not None:
            _place(answer, path, copied(found))
    return answer


def _place(answer: Item, path: Path, value: Value) -> None:
    inner: dict[str, Any] = answer
    for part, following in pairwise(path):
        if isinstance(part, int) or isinstance(following, int):
            raise Invalid("Projections into lists are not part of this table")
        inner = inner.setdefault(part, {"M": {}})["M"]
    inner[str(path[-1])] = value


SLOTS = (
    "KeyConditionExpression",
    "ConditionExpression",
    "FilterExpression",
    "UpdateExpression",
    "ProjectionExpression",
)


def bind(params: Mapping[str, Any]) -> Bound:
    """Parses and checks all expressions of one request; every placeholder is defined and every definition used."""
    parsed: dict[str, Parsed] = {}
    for slot in SLOTS:
        text = params.get(slot)
        if text is None:
            continue
        if slot == "UpdateExpression":
            parsed[slot] = grammar.update(text)
        elif slot == "ProjectionExpression":
            parsed[slot] = grammar.projection(text)
        else:
            parsed[slot] = grammar.condition(text, slot)
    names = params.get("ExpressionAttributeNames")
    values = params.get("ExpressionAttributeValues")
    for given, what in ((names, "Names"), (values, "Values")):
        if given is not None and not given:
            raise Invalid(f"ExpressionAttribute{what} must not be empty")
        if given is not None and not parsed:
            raise Invalid(f"ExpressionAttribute{what} can only be specified when using expressions")
    for slot, each in parsed.items():
        for name in sorted(each.names - (names or {}).keys()):
            raise Invalid(
                f"Invalid {slot}: An expression attribute name used in the document path is not defined;"
                f" attribute name: {name}"
            )
        for name in sorted(each.values - (values or {}).keys()):
            raise Invalid(
                f"Invalid {slot}: An expression attribute value used in expression is not defined;"
                f" attribute value: {name}"
            )
    used_names = frozenset().union(*(each.names for each in parsed.values()))
    used_values = frozenset().union(*(each.values for each in parsed.values()))
    for given, used, what in ((names, used_names, "Names"), (values, used_values, "Values")):
        unused = sorted((given or {}).keys() - used)
        if unused:
            raise Invalid(
                f"Value provided in ExpressionAttribute{what} unused in expressions: keys: {{{', '.join(unused)}}}"
            )
    return Bound(parsed, dict(names or {}), {name: canonical(value) for name, value in (values or {}).items()})
