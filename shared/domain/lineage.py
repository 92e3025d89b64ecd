"""From rows to reflections: what a batch covers, and which entries may be committed on it."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.batch import MAX_ENTRIES, MAX_ENTRY_CHARACTERS, MIN_ENTRIES, Batch, Entry
from shared.domain.errors import FieldProblem, InvalidRequest
from shared.domain.memory import MAX_IMPORTANCE, MIN_IMPORTANCE, Covers, Memory
from shared.domain.text import is_blank, storable_problem


def covers_of(sources: Sequence[Memory]) -> Covers:
    """The period of at least one source: from the earliest start to the latest end."""
    return Covers(
        min(source.covers.from_ms if source.covers else source.date_ms for source in sources),
        max(source.covers.to_ms if source.covers else source.date_ms for source in sources),
    )


def reflections_of(batch: Batch, entries: Sequence[Entry], now_ms: int) -> list[Memory]:
    """The rows that a commit of the batch writes, in the order of its entries."""
    return [
        Memory(
            id=entry.id,
            tier=batch.tier + 1,
            text=entry.text,
            role="assistant",
            date_ms=batch.covers.to_ms,
            tokens=entry.tokens,
            created_ms=now_ms,
            importance=entry.importance,
            covers=batch.covers,
            origin=batch.id,
            entry=number,
        )
        for number, entry in enumerate(entries)
    ]


def check_entries(entries: Sequence[tuple[str, int]]) -> None:
    """Refuse entries that cannot become reflections, naming every wrong field. Raises `InvalidRequest`."""
    if not MIN_ENTRIES <= len(entries) <= MAX_ENTRIES:
        raise InvalidRequest.field("entries", f"holds {len(entries)} items; {MIN_ENTRIES} to {MAX_ENTRIES} are allowed")
    problems = []
    for number, (text, importance) in enumerate(entries):
        problem = _text_problem(text)
        if problem is not None:
            problems.append(FieldProblem(f"entries.{number}.text", problem))
        if isinstance(importance, bool) or not MIN_IMPORTANCE <= importance <= MAX_IMPORTANCE:
            problems.append(
                FieldProblem(f"entries.{number}.importance", f"must be an integer {MIN_IMPORTANCE} to {MAX_IMPORTANCE}")
            )
    if problems:
        raise InvalidRequest(
            "; ".join(f"{problem.field}: {problem.problem}" for problem in problems[:3]), details=problems
        )


def _text_problem(text: str) -> str | None:
    if is_blank(text):
        return "must hold text, not only white space"
    if len(text) > MAX_ENTRY_CHARACTERS:
        return f"has {len(text)} characters; at most {MAX_ENTRY_CHARACTERS} are allowed"
    return storable_problem(text)
