"""A context of limited size: which rows are shown, how much of each, and how they read.

Rows come in order of relevance, the best of each tier before all others, and are shown until one does not fit. A row
takes `ROW_TOKENS` at most to begin with: a longer one is shown in part, around what was asked for. What is left of the
budget goes to the rows in part, best first. So a larger budget never shows fewer rows, and one of `ROW_TOKENS` a row
shows every row. Where not even the best rows of the tiers fit like this, they alone are shown and share the budget.

Only headings and first lines of rows begin at the margin: what a memory's text holds cannot pass for either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from shared.domain.memory import HIGH_LEVEL, RAW, REFLECTION, TIERS, Memory
from shared.domain.readable_dates import moment_text, period_text
from shared.domain.text import BYTES_PER_TOKEN
from shared.retrieval.excerpts import excerpt, fullest_passage, question_stems
from shared.retrieval.lines import indented
from shared.retrieval.repeats import Scored, best_first

ROW_TOKENS: Final = 200
LEAST_TOKENS: Final = 200
"""The smallest budget, in which every tier finds room for its heading, a date, a role and some words."""

HEADINGS: Final = {HIGH_LEVEL: "What it means:", REFLECTION: "What happened:", RAW: "Exact moments (UTC):"}
_ROLE_CHARACTERS = 40
# Of every section: its heading and the blank line before it. Of every row: its line break.
_SECTION_BYTES = max(map(len, HEADINGS.values())) + 2
_BREAK_BYTES = 1
_ROW_BYTES = ROW_TOKENS * BYTES_PER_TOKEN - _SECTION_BYTES


@dataclass(frozen=True, slots=True)
class Shown:
    """A row as the context shows it.

    `text` is the memory's, `indented`, or, marked with ``…``, a stretch of that around `passage`.
    """

    row: Scored
    text: str
    passage: slice | None = None

    @property
    def memory(self) -> Memory:
        return self.row.memory

    @property
    def in_part(self) -> bool:
        return self.passage is not None

    @property
    def line(self) -> str:
        return _heading(self.row) + self.text

    @property
    def size(self) -> int:
        return len(self.line.encode("utf-8")) + _BREAK_BYTES


@dataclass(frozen=True, slots=True)
class Packed:
    """`shown` are the rows of `text`, best first; `truncated` says whether the budget left out any row or part."""

    text: str
    shown: tuple[Shown, ...]
    truncated: bool


def pack(rows: Iterable[Scored], question: str, budget: int) -> Packed:
    """The context of at most `budget` estimated tokens, `LEAST_TOKENS` or more; empty only without rows.

    The order of `rows` does not matter, and the same rows give the same text.
    """
    ordered = best_first(rows)
    leaders = best_first({row.memory.tier: row for row in reversed(ordered)}.values())
    ordered.sort(key=lambda row: row not in leaders)
    asked = question_stems(question)
    room = budget * BYTES_PER_TOKEN - _SECTION_BYTES * len(leaders)
    shown = [_cut(row, asked, _ROW_BYTES) for row in leaders]
    if sum(each.size for each in shown) > room:
        shown = [_cut(row, asked, room // len(leaders)) for row in leaders]
    else:
        shown = _as_many(ordered, asked, room)
    shown = _fuller(shown, asked, room)
    truncated = len(shown) < len(ordered) or any(each.in_part for each in shown)
    return Packed(_text(shown), tuple(shown), truncated)


def _as_many(ordered: Sequence[Scored], asked: frozenset[str], room: int) -> list[Shown]:
    shown: list[Shown] = []
    lines: set[tuple[int, str]] = set()
    for row in ordered:
        each = _cut(row, asked, _ROW_BYTES)
        if each.size > room:
            break
        # Long rows that differ elsewhere may look alike in part.
        if (row.memory.tier, each.line) not in lines:
            lines.add((row.memory.tier, each.line))
            shown.append(each)
            room -= each.size
    return shown


def _fuller(shown: Sequence[Shown], asked: frozenset[str], room: int) -> list[Shown]:
    left = room - sum(each.size for each in shown)
    lines = {each.line for each in shown}
    filled: list[Shown] = []
    for each in shown:
        more = _cut(each.row, asked, each.size + left, each.passage) if each.in_part and left else each
        if more.size > each.size and more.line not in lines:
            lines.add(more.line)
            left -= more.size - each.size
            filled.append(more)
        else:
            filled.append(each)
    return filled


def _cut(row: Scored, asked: frozenset[str], size: int, passage: slice | None = None) -> Shown:
    """The row in at most `size` bytes, its line break included."""
    whole = Shown(row, indented(row.memory.text))
    if whole.size <= size:
        return whole
    around = replace(whole, text="").size
    passage = passage or fullest_passage(whole.text, asked)
    return Shown(row, excerpt(whole.text, asked, size - around, passage), passage)


def _text(shown: Sequence[Shown]) -> str:
    """Tier 3, tier 2, then raw moments; oldest to newest within a tier."""
    by_date = sorted(shown, key=lambda each: (each.memory.date_ms, each.memory.id))
    sections = []
    for tier in sorted(TIERS, reverse=True):
        lines = [each.line for each in by_date if each.memory.tier == tier]
        if lines:
            sections.append("\n".join([HEADINGS[tier], *lines]))
    return "\n\n".join(sections)


def _heading(row: Scored) -> str:
    """When, and of raw rows who: what stands before the text."""
    memory, said = row.memory, row.said
    if memory.covers is not None:
        period = period_text(memory.covers.from_ms, memory.covers.to_ms)
        return f"[{period}] " if said is None else f"[{period}, said {_said(said.from_ms, said.to_ms)}] "
    when = moment_text(memory.date_ms)
    if said is not None and moment_text(said.from_ms) != when:
        when += f", first {moment_text(said.from_ms)}"
    role = " ".join(memory.role.split())
    return f"[{when}] {role if len(role) <= _ROLE_CHARACTERS else role[:_ROLE_CHARACTERS] + '…'}: "


def _said(from_ms: int, to_ms: int) -> str:
    return moment_text(from_ms) if moment_text(from_ms) == moment_text(to_ms) else period_text(from_ms, to_ms)
