"""Rows in the order in which they are each other's context."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.domain.memory import Memory, VaultRef
from shared.ports.search import RowSource
from shared.retrieval.chunks import chunks
from shared.retrieval.indexed import passage_words

AROUND = 2
"""Passages on either side that lend their words."""
REACH = 2 * AROUND
"""Rows on either side that decide what the passages `AROUND` a row hold."""
AT_ONCE = 100
"""Rows on either side that are asked for at most."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One passage. `heading` and `said` are the stems of its role and date and of its own text."""

    memory: Memory
    number: int
    heading: tuple[str, ...]
    said: tuple[str, ...]

    @property
    def key(self) -> tuple[str, int]:
        return self.memory.id, self.number

    def words(self) -> tuple[str, ...]:
        return self.heading + self.said


Chain = list[Piece]


def pieces(memory: Memory) -> Chain:
    found = []
    for number, text in enumerate(chunks(memory.text)):
        heading, said = passage_words(memory.role, memory.date_ms, text)
        found.append(Piece(memory, number, heading, tuple(said)))
    return found


def chains(rows: RowSource, vault: VaultRef, changed: Iterable[Memory]) -> list[Chain]:
    """Passages of the changed rows and of the rows `REACH` around them, in unbroken stretches of their sessions.

    A row without a session is a stretch of its own.
    """
    alone: list[list[Memory]] = []
    by_session: dict[str, list[Memory]] = defaultdict(list)
    for memory in changed:
        if memory.session_id is None:
            alone.append([memory])
        else:
            by_session[memory.session_id].append(memory)
    for session, members in by_session.items():
        alone += _stretches(rows, vault, session, sorted(members, key=_key))
    return [[piece for memory in stretch for piece in pieces(memory)] for stretch in alone]


def _stretches(rows: RowSource, vault: VaultRef, session: str, members: Sequence[Memory]) -> list[list[Memory]]:
    stretches: list[list[Memory]] = []
    # How far the last stretch is known to be complete: the row asked for may have `REACH` rows behind it up to here.
    ended = False
    for place, memory in enumerate(members):
        last = stretches[-1] if stretches else []
        held = {each.id: position for position, each in enumerate(last)}
        if memory.id in held and (ended or len(last) - held[memory.id] > REACH):
            continue
        reach = min(REACH + len(members) - place - 1, AT_ONCE)
        around = rows.beside(vault, session, _key(memory), reach)
        window = sorted({each.id: each for each in (*around, memory)}.values(), key=_key)
        ended = sum(_key(each) > _key(memory) for each in around) < reach
        if last and _key(window[0]) <= _key(last[-1]):
            stretches[-1] = sorted({each.id: each for each in (*last, *window)}.values(), key=_key)
        else:
            stretches.append(window)
    return stretches


def _key(memory: Memory) -> tuple[int, str]:
    return memory.date_ms, memory.id
