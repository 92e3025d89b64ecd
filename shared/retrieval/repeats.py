"""Rows that say what another row says already: a context needs to say it once.

Two rows say the same when their words are the same in the same order: case, white space, sentence marks, articles and
"please" do not count; a question mark does, and so does any other word. Of rows with the same words the one of the
highest tier stands for the others, of the same tier the newest; raw rows of different roles stand beside each other.

A source (a raw row, or a reflection that was consolidated itself) is said by a reflection that was made from it when
the reflection holds at least `SHARE` of the source's content words, all its numbers and names, and negates where the
source does. A reflection is never left out for the sake of its sources: it says what they mean.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from shared.domain.memory import RAW, Covers, Memory
from shared.retrieval.function_words import FUNCTION_WORDS, content_words
from shared.retrieval.tokens import tokens

SHARE = 0.8

WHOLE_BYTES = 600
"""A longer reflection may be shown in part, hence stands for nothing but its own words."""

# Stripped from the ends of words. What is left of ":)" or "!!!" would be nothing; such words stay as they are.
_BEFORE, _AFTER = "\"“”„«»'‘’([{¿¡", ".,;:!…\"“”„«»'‘’)]}"
_EMPTY_WORDS = frozenset(("a", "an", "the", "please"))
_NUMBER = re.compile(r"[-+$€£¥]?\d(?:[\d.,:/-]*\d)?[%°]?[A-Za-z]*")
_NUMBER_WORDS = frozenset(
    tokens(
        "two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy eighty "
        "ninety hundred thousand million billion half quarter dozen twice first second third"
    )
)
_NEGATION = re.compile(
    r"n['’]t\b|\b(?:no|not|never|none|nor|neither|nobody|nothing|nowhere|cannot|without|unless|except|hardly|barely)\b"
)


@dataclass(frozen=True, slots=True)
class Scored:
    """A row and its relevance; `said` is the period of the raw rows that it stands for, itself not among them."""

    memory: Memory
    score: float
    said: Covers | None = None


def best_first(rows: Iterable[Scored]) -> list[Scored]:
    """By falling score; of equal ones the higher tier first, then the newer row. No order of arrival shows."""
    return sorted(rows, key=lambda row: (-row.score, -row.memory.tier, -row.memory.date_ms, row.memory.id))


def without_repeats(rows: Iterable[Scored]) -> list[Scored]:
    """The rows that add something, best first. A row that stands for others takes the best score among them."""
    every = best_first(rows)
    kept = {row.memory.id: row for row in every}
    _merge_same_words(kept)
    _merge_sources(kept, [row.memory for row in every])
    return best_first(kept.values())


def _merge_same_words(kept: dict[str, Scored]) -> None:
    groups: dict[tuple[str, ...], list[Memory]] = defaultdict(list)
    for row in kept.values():
        groups[same_words(row.memory.text)].append(row.memory)
    for group in groups.values():
        highest_first = sorted(group, key=lambda memory: (memory.tier, memory.date_ms, memory.id), reverse=True)
        standing: dict[str | None, Memory] = {}
        for memory in highest_first:
            role = memory.role if highest_first[0].tier == RAW else None
            if role in standing:
                _stand_for(kept, standing[role], memory)
            else:
                standing[role] = memory


def _merge_sources(kept: dict[str, Scored], every: list[Memory]) -> None:
    """Higher tiers first, so that what stands for a source is shown itself.

    A reflection of tier 3 is above a raw row too where the reflection between them is among the rows.
    """
    made_by: dict[str, list[Memory]] = defaultdict(list)
    for memory in every:
        if memory.origin is not None:
            made_by[memory.origin].append(memory)
    facts = {memory.id: _Facts(memory.text) for memory in every}
    for memory in sorted(every, key=lambda memory: -memory.tier):
        if memory.id not in kept or memory.consolidated_by is None:
            continue
        direct = made_by[memory.consolidated_by]
        higher = chain.from_iterable(made_by[each.consolidated_by] for each in direct if each.consolidated_by)
        for above in chain(direct, higher):
            short = len(above.text.encode("utf-8")) <= WHOLE_BYTES
            if above.id in kept and above.tier > memory.tier and short and facts[above.id].say(facts[memory.id]):
                _stand_for(kept, above, memory)
                break


def _stand_for(kept: dict[str, Scored], one: Memory, other: Memory) -> None:
    gone, standing = kept.pop(other.id), kept[one.id]
    periods = [period for period in (gone.said, standing.said) if period is not None]
    if other.tier == RAW:
        periods.append(Covers(other.date_ms, other.date_ms))
    said = Covers(min(p.from_ms for p in periods), max(p.to_ms for p in periods)) if periods else None
    kept[one.id] = replace(standing, score=max(standing.score, gone.score), said=said)


def same_words(text: str) -> tuple[str, ...]:
    """What two texts have in common that say the same word for word."""
    words = [_bare(word) for word in unicodedata.normalize("NFC", text).casefold().split()]
    return tuple(word for word in words if word not in _EMPTY_WORDS) or tuple(words)


def _bare(word: str) -> str:
    return word.lstrip(_BEFORE).rstrip(_AFTER) or word


class _Facts:
    """What a text says, as far as words can tell. Worked out when asked for: most rows have no reflection above."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(tokens(self._text))

    @cached_property
    def content(self) -> frozenset[str]:
        return content_words(self.stems)

    @cached_property
    def names(self) -> frozenset[str]:
        """Words with a capital, also where a sentence begins with one, and numbers in words."""
        capitals = " ".join(word for word in self._text.split() if word != word.lower())
        return frozenset(tokens(capitals)) - FUNCTION_WORDS | self.stems & _NUMBER_WORDS

    @cached_property
    def numbers(self) -> frozenset[str]:
        return frozenset(_NUMBER.findall(self._text.casefold()))

    @cached_property
    def negations(self) -> int:
        return len(_NEGATION.findall(self._text.casefold()))

    def say(self, other: _Facts) -> bool:
        """Whether `other` adds nothing to this text."""
        return (
            len(other.content & self.stems) >= SHARE * len(other.content)
            and other.names <= self.stems
            and other.numbers <= self.numbers
            and other.negations <= self.negations
            and bool(other.negations) == bool(self.negations)
        )
