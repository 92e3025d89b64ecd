"""What a retrieval set is made of: rows as a vault holds them, and questions of which the right rows are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One raw memory. `id` is a UUID in canonical form; ids ascend as rows were told."""

    id: str
    role: str
    session: str | None
    date_ms: int
    text: str


@dataclass(frozen=True)
class Question:
    """`relevant` are the ids of the rows that answer it, at least one; `asked_ms` is when it is asked."""

    text: str
    relevant: frozenset[str]
    category: str
    asked_ms: int


@dataclass(frozen=True)
class Corpus:
    """The content of one vault and what is asked of it."""

    name: str
    lines: Sequence[Line]
    questions: Sequence[Question]
