"""How a vault is put together from what each category tells: sessions, dates, roles and ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from random import Random
from typing import TypeVar
from uuid import UUID

from tests.bench.retrieval.corpus import Corpus, Line, Question

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
STRAY = 0.25
"""Share of a session's blocks that belong to another theme than the session's."""

T = TypeVar("T")


class Draw:
    """Choices from a seed. They rest on `Random.random` alone, the one method whose numbers Python keeps for ever."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def between(self, least: int, most: int) -> int:
        """Both ends included."""
        return least + self.below(most - least + 1)

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def one(self, of: Sequence[T]) -> T:
        return of[self.below(len(of))]

    def order(self, of: Iterable[T]) -> list[T]:
        left = list(of)
        for last in range(len(left) - 1, 0, -1):
            other = self.below(last + 1)
            left[last], left[other] = left[other], left[last]
        return left

    def some(self, of: Sequence[T], count: int) -> list[T]:
        """`count` different places of `of`, in random order; all of them where there are fewer."""
        return self.order(of)[:count]

    def digits(self, count: int) -> str:
        return str(self.between(1, 9)) + "".join(str(self.below(10)) for _ in range(count - 1))

    def hexadecimal(self, count: int) -> str:
        return "".join(self.one("0123456789abcdef") for _ in range(count))


@dataclass(frozen=True)
class Vault:
    """Whose vault it is. Everything is told in the three years before `now`, and everything is asked at `now`."""

    name: str
    speakers: tuple[str, str]
    now: datetime
    languages: tuple[str, ...]

    @property
    def now_ms(self) -> int:
        return int(self.now.timestamp()) * 1000

    @property
    def asker(self) -> str:
        """Subject of a question about the first speaker."""
        return "I" if self.speakers[0] == "user" else self.speakers[0]


@dataclass(frozen=True)
class Turn:
    """`speaker` is 0 or 1, or None where either may say it. Questions name the turns that answer them by `mark`."""

    text: str
    speaker: int | None = None
    mark: str = ""


@dataclass(frozen=True)
class Block:
    """Turns that follow each other, about one theme. `day` fixes the date; `loose` turns belong to no session."""

    theme: str
    turns: tuple[Turn, ...]
    day: date | None = None
    loose: bool = False


@dataclass(frozen=True)
class Ask:
    text: str
    mark: str
    category: str


@dataclass
class Part:
    """What one category gives to a vault."""

    blocks: list[Block] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)

    def tell(self, theme: str, text: str, mark: str = "", *, day: date | None = None, loose: bool = False) -> None:
        self.blocks.append(Block(theme, (Turn(text, None, mark),), day, loose))


def assemble(vault: Vault, parts: Sequence[Part]) -> Corpus:
    """Blocks become sessions of mostly one theme; lines stand in the order of their dates, ids ascend with them."""
    draw = Draw(f"assemble {vault.name}")
    told: list[tuple[int, str | None, Turn]] = []
    for number, (start, blocks) in enumerate(_sessions(draw, vault, parts), start=1):
        moment = start
        for block in blocks:
            for turn in block.turns:
                told.append((moment, None if block.loose else f"session {number}", turn))
                moment += draw.between(20, 90) * 1000
    told.sort(key=lambda each: each[0])
    lines: list[Line] = []
    marked: dict[str, set[str]] = {}
    for number, (moment, session, turn) in enumerate(told, start=1):
        speaker = draw.below(2) if turn.speaker is None else turn.speaker
        lines.append(Line(str(UUID(int=number, version=4)), vault.speakers[speaker], session, moment, turn.text))
        if turn.mark:
            marked.setdefault(turn.mark, set()).add(lines[-1].id)
    questions = [
        Question(ask.text, frozenset(marked[ask.mark]), ask.category, vault.now_ms)
        for part in parts
        for ask in part.asks
    ]
    return Corpus(vault.name, lines, questions)


def _sessions(draw: Draw, vault: Vault, parts: Sequence[Part]) -> list[tuple[int, list[Block]]]:
    """Start and content of each. A session with a dated block begins in that day's working hours."""
    every = [block for part in parts for block in part.blocks]
    free: dict[str, list[Block]] = {}
    for block in draw.order(block for block in every if block.day is None):
        free.setdefault(block.theme, []).append(block)
    sessions: list[tuple[int, list[Block]]] = []
    for block in (block for block in every if block.day is not None):
        assert block.day is not None
        midnight = int(datetime(block.day.year, block.day.month, block.day.day, tzinfo=UTC).timestamp()) * 1000
        around = _take(draw, free, draw.below(3))
        place = draw.below(len(around) + 1)
        sessions.append((midnight + draw.between(8 * 60, 18 * 60) * 60_000, [*around[:place], block, *around[place:]]))
    while free:
        start = vault.now_ms - draw.between(3 * 24 * 60, 3 * 365 * 24 * 60) * 60_000
        sessions.append((start, _take(draw, free, draw.between(4, 9))))
    return sorted(sessions, key=lambda session: session[0])


def _take(draw: Draw, free: dict[str, list[Block]], count: int) -> list[Block]:
    """Up to `count` of the free blocks, most of them of one theme; a theme's chance is its share of what is left."""
    taken: list[Block] = []
    theme = ""
    while free and len(taken) < count:
        if theme not in free or draw.chance(STRAY):
            chosen = draw.one([name for name, left in free.items() for _ in left])
            theme = theme or chosen
        else:
            chosen = theme
        taken.append(free[chosen].pop())
        if not free[chosen]:
            del free[chosen]
    return taken
