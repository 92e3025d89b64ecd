"""Parses expressions once per text. Attribute names and values stay placeholders until a request binds them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tests.dynamodb.errors import Invalid
from tests.dynamodb.reserved import RESERVED

Path = tuple[str | int, ...]
# A node is a tuple: its kind, then its parts.
Node = tuple[Any, ...]

TOKEN = re.compile(r"\s*(?:(#\w+|:\w+|[A-Za-z_]\w*|\d+)|(<>|<=|>=|[=<>+\-(),.\[\]]))", re.ASCII)
COMPARATORS = ("=", "<>", "<", "<=", ">", ">=")
# Function → its node's kind and how many operands follow the path.
FUNCTIONS = {
    "attribute_exists": ("exists", 0),
    "attribute_not_exists": ("missing", 0),
    "begins_with": ("begins", 1),
    "contains": ("contains", 1),
    "attribute_type": ("type", 1),
}
MAX_EXPRESSION = 4096
MAX_CHOICES = 100
SECTIONS = ("SET", "REMOVE", "ADD", "DELETE")


@dataclass(frozen=True)
class Parsed:
    """`names` and `values` are the placeholders the expression uses, as ``#n`` and ``:v``; `roots` begin its paths."""

    node: Node
    names: frozenset[str]
    values: frozenset[str]
    roots: frozenset[str]


@dataclass
class Parser:
    text: str
    slot: str
    tokens: list[str] = field(default_factory=list)
    at: int = 0
    names: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    roots: set[str] = field(default_factory=set)
    # First and last token of the group that was closed last.
    group: tuple[int, int] = (-1, -1)

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise Invalid(f"Invalid {self.slot}: The expression can not be empty;")
        if len(self.text.encode()) > MAX_EXPRESSION:
            raise Invalid(f"Invalid {self.slot}: Expression size has exceeded the maximum allowed size;")
        position = 0
        text = self.text.rstrip()
        while position < len(text):
            found = TOKEN.match(text, position)
            if found is None:
                raise self.error(text[position])
            self.tokens.append(found[1] or found[2])
            position = found.end()

    def error(self, token: str) -> Invalid:
        return Invalid(f'Invalid {self.slot}: Syntax error; token: "{token}", near: "{self.text[:60]}"')

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else "<EOF>"

    @property
    def word(self) -> str:
        return self.next.upper()

    def take(self, *wanted: str) -> str:
        token = self.next
        if self.at >= len(self.tokens) or (wanted and token.upper() not in wanted):
            raise self.error(token)
        self.at += 1
        return token

    def skip(self, token: str) -> bool:
        if self.word == token:
            self.at += 1
            return True
        return False

    def end(self, node: Node) -> Parsed:
        if self.at < len(self.tokens):
            raise self.error(self.next)
        return Parsed(node, frozenset(self.names), frozenset(self.values), frozenset(self.roots))

    def value(self) -> str:
        token = self.take()
        if token[0] != ":":
            raise self.error(token)
        self.values.add(token)
        return token

    def path(self) -> Path:
        root = self.element()
        self.roots.add(root)
        parts: list[str | int] = [root]
        while self.next in (".", "["):
            if self.skip("."):
                parts.append(self.element())
            else:
                self.take("[")
                index = self.take()
                if not index.isdigit():
                    raise self.error(index)
                parts.append(int(index))
                self.take("]")
        return tuple(parts)

    def element(self) -> str:
        token = self.take()
        if token[0] == "#":
            self.names.add(token)
        elif not (token[0].isalpha() or token[0] == "_"):
            raise self.error(token)
        elif token.upper() in RESERVED:
            raise Invalid(f"Invalid {self.slot}: Attribute name is a reserved keyword; reserved keyword: {token}")
        return token

    def disjunction(self) -> Node:
        node = self.conjunction()
        while self.skip("OR"):
            node = ("or", node, self.conjunction())
        return node

    def conjunction(self) -> Node:
        node = self.negation()
        while self.skip("AND"):
            node = ("and", node, self.negation())
        return node

    def negation(self) -> Node:
        if self.skip("NOT"):
            return ("not", self.negation())
        return self.comparison()

    def comparison(self) -> Node:
        if self.next == "(":
            start = self.at
            self.take("(")
            node = self.disjunction()
            if self.group == (start + 1, self.at - 1):
                raise Invalid(f"Invalid {self.slot}: The expression has redundant parentheses;")
            self.take(")")
            self.group = (start, self.at - 1)
            return node
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else ""
        if following == "(" and self.next != "size":
            return self.function()
        left = self.operand()
        if self.skip("BETWEEN"):
            low = self.operand()
            self.take("AND")
            return ("between", left, low, self.operand())
        if self.skip("IN"):
            self.take("(")
            choices = [self.operand()]
            while self.skip(","):
                choices.append(self.operand())
            self.take(")")
            if len(choices) > MAX_CHOICES:
                raise Invalid(f"Invalid {self.slot}: The IN operator is provided with too many operands;")
            return ("in", left, tuple(choices))
        return ("compare", self.take(*COMPARATORS), left, self.operand())

    def function(self) -> Node:
        name = self.take()
        if name not in FUNCTIONS:
            raise Invalid(f"Invalid {self.slot}: Invalid function name; function: {name}")
        kind, operands = FUNCTIONS[name]
        self.take("(")
        parts: list[Any] = [self.path()]
        for _ in range(operands):
            self.take(",")
            parts.append(self.operand())
        self.take(")")
        return (kind, *parts)

    def operand(self) -> Node:
        if self.next[0] == ":":
            return ("value", self.value())
        if self.next == "size" and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1] == "(":
            self.take()
            self.take("(")
            path = self.path()
            self.take(")")
            return ("size", path)
        return ("path", self.path())

    def update(self) -> Node:
        actions: list[Node] = []
        seen: set[str] = set()
        while self.at < len(self.tokens):
            section = self.take(*SECTIONS).upper()
            if section in seen:
                raise Invalid(
                    f'Invalid {self.slot}: The "{section}" section can only be used once in an update expression;'
                )
            seen.add(section)
            actions.append(self.action(section))
            while self.skip(","):
                actions.append(self.action(section))
        return ("update", tuple(actions))

    def action(self, section: str) -> Node:
        path = self.path()
        if section == "SET":
            self.take("=")
            left = self.term()
            if self.next in ("+", "-"):
                left = (self.take(), left, self.term())
            return ("set", path, left)
        if section == "REMOVE":
            return ("remove", path)
        return (section.lower(), path, self.value())

    def term(self) -> Node:
        if self.next in ("if_not_exists", "list_append"):
            name = self.take()
            self.take("(")
            first: Node = ("path", self.path()) if name == "if_not_exists" else self.term()
            self.take(",")
            node = (name, first, self.term())
            self.take(")")
            return node
        return self.operand()


@lru_cache(maxsize=4096)
def condition(text: str, slot: str) -> Parsed:
    parser = Parser(text, slot)
    return parser.end(parser.disjunction())


@lru_cache(maxsize=4096)
def update(text: str) -> Parsed:
    parser = Parser(text, "UpdateExpression")
    return parser.end(parser.update())


@lru_cache(maxsize=4096)
def projection(text: str) -> Parsed:
    parser = Parser(text, "ProjectionExpression")
    paths = [parser.path()]
    while parser.skip(","):
        paths.append(parser.path())
    return parser.end(("projection", tuple(paths)))
