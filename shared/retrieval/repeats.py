"""Rows that say what another row says already: a context needs to say it once. In doubt a row stays.

Two rows say the same when their words are the same in the same order (`same_words`). Of rows with the same words the
one of the highest tier stands for the others, of the same tier the newest; raw rows of different roles stand beside
each other.

A source (a raw row, or a reflection that was consolidated itself) is said by a reflection that was made from it when
the reflection holds at least `SHARE` of the source's content words and nothing that words can tell speaks against it
(`_Facts.say`). A reflection is never left out for the sake of its sources: it says what they mean.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise

from shared.domain.memory import RAW, Covers, Memory
from shared.retrieval.function_words import FUNCTION_WORDS, content_words
from shared.retrieval.lines import indented
from shared.retrieval.tokens import tokens

SHARE = 0.8

WHOLE_BYTES = 600
"""A reflection that is longer, `indented`, may be shown in part, hence stands for nothing but its own words."""

# Stripped from the ends of words. What is left of ":)" or "!!!" would be nothing; such words stay as they are.
_QUOTES = "\"“”„«»'‘’"
_BEFORE, _AFTER = _QUOTES + "([{¿¡", _QUOTES + ".,;:!…)]}"
_ARTICLES = frozenset(("a", "an", "the", "The"))
_PLEASE = frozenset(("please", "Please"))
_ABBREVIATION = 3
"""Characters of a word in which a capital behind the first counts: IT is not it, nor MW mW."""

_SIGN, _CURRENCY = "[-+−±<>≤≥~]?", "[$€£¥₹₽₩₿¢₺₴₫₱]"
_NUMBER = re.compile(
    rf"{_SIGN}(?:{_CURRENCY} ?)?{_SIGN}[\d½¼¾⅓⅔](?:[\d.,:/-]*[\d½¼¾⅓⅔])?"
    rf"(?: ?{_CURRENCY}|[%‰°'\"′″’”])?(?:-?[A-Za-zµμΩ]+|[^\W\d_])?"
)
_NUMBER_WORDS = frozenset(
    tokens(
        "two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy eighty "
        "ninety hundred thousand million billion half quarter dozen twice first second third"
    )
)
_NEGATION = re.compile(
    r"n['’]t\b|\b(?:no|not|never|none|nor|neither|nobody|nothing|nowhere|cannot|without|unless|except|hardly|barely"
    r"|cancel\w*|refus\w*|den(?:y|ies|ied|ying)|fail\w*|stop\w*|quit\w*|reject\w*|declin\w*|avoid\w*|skip\w*)\b"
)

_ALTERNATIVES = tuple(
    frozenset(tokens(words))
    for words in (
        "before after",
        "since until till",
        "on off",
        "in out",
        "up down",
        "over under above below",
        "left right",
        "first last next",
        "more less fewer",
        "most least",
        "north south east west",
        "morning noon afternoon evening night midnight pm",
        "yesterday today tonight tomorrow",
        "monday tuesday wednesday thursday friday saturday sunday",
        "january february march april june july august september october november december",
    )
)
"""One word of a line in place of another turns a statement round, and most of them are no content words."""


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
            short = len(indented(above.text).encode("utf-8")) <= WHOLE_BYTES
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
    """What two texts have in common that say the same word for word.

    Case, white space, sentence marks, "please" and articles in front of a content word do not count. Any other word
    does, and a question mark; of case, that of words with a number, of the word behind one and of abbreviations; feet
    and inches behind a number; and the indentation of lines, where any is indented.
    """
    text = unicodedata.normalize("NFC", text)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and any(line[0].isspace() for line in lines):
        return tuple(chain.from_iterable((_indentation(line), *_words(line)) for line in lines))
    return _words(text)


def _indentation(line: str) -> str:
    return "\n" + line[: len(line) - len(line.lstrip())]


def _words(text: str) -> tuple[str, ...]:
    written = text.split()
    folded: list[str] = []
    said: list[str] = []
    counted = False
    for word, after in zip(written, [*written[1:], ""], strict=True):
        bare = _bare(word)
        numeric = _has_number(bare)
        kept_case = numeric or counted or (len(bare) <= _ABBREVIATION and bare[1:] != bare[1:].lower())
        folded.append(bare if kept_case else bare.lower())
        # What ends in a mark is a label: "(a)", "vitamin a, b and c".
        if bare not in _PLEASE and not (bare in _ARTICLES and word.endswith(bare) and _is_content(after)):
            said.append(folded[-1])
        counted = numeric
    return tuple(said or folded)


def _is_content(word: str) -> bool:
    bare = _bare(word).lower()
    return any(c.isalnum() for c in bare) and bare not in FUNCTION_WORDS


def _has_number(word: str) -> bool:
    return not word.isalpha() and any(c.isnumeric() for c in word)


def _bare(word: str) -> str:
    """The word without the marks around it; behind a number, quotes may be feet, inches, minutes or seconds."""
    bare = word.lstrip(_BEFORE).rstrip(_AFTER)
    if bare[-1:].isnumeric():
        behind = word[word.rindex(bare) + len(bare) :]
        return bare + behind[: len(behind) - len(behind.lstrip(_QUOTES))]
    return bare or word


class _Facts:
    """What a text says, as far as words can tell. Worked out when asked for: most rows have no reflection above."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def words(self) -> list[str]:
        return tokens(self._text)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(self.words)

    @cached_property
    def content(self) -> frozenset[str]:
        return content_words(self.stems)

    @cached_property
    def names(self) -> frozenset[str]:
        """Words with a capital, also where a sentence begins with one, and numbers in words."""
        capitals = " ".join(word for word in self._text.split() if word != word.lower())
        return frozenset(tokens(capitals)) - FUNCTION_WORDS | self.stems & _NUMBER_WORDS

    @cached_property
    def numbers(self) -> list[str]:
        """With their signs, currencies and whatever is written to them: "$5", "5 $" and "5MB"."""
        return [number.replace(" ", "") for number in _NUMBER.findall(self._text)]

    @cached_property
    def amounts(self) -> frozenset[tuple[str, str]]:
        """Numbers and the word behind each, which may be its unit."""
        spelled = self.stems & _NUMBER_WORDS
        return frozenset(
            (_bare(word).lower(), _bare(after))
            for word, after in pairwise(self._text.split())
            if word[-1] not in ".,;:!?…" and (_has_number(word) or (spelled and not spelled.isdisjoint(tokens(word))))
        )

    @cached_property
    def negations(self) -> int:
        return len(_NEGATION.findall(self._text.casefold()))

    def say(self, other: _Facts) -> bool:
        """Whether `other` adds nothing to this text.

        This text must hold its names, its numbers and the word behind each; names and numbers that both hold stand in
        the same order; both negate as often; and where `other` has one of several `_ALTERNATIVES`, this text has the
        same. Beyond reach: roles and conditions told by other words than these, such as "borrow" for "lend", and what
        is negated where both texts negate as often.
        """
        return (
            len(other.content & self.stems) >= SHARE * len(other.content)
            and other.names <= self.stems
            and set(other.numbers) <= set(self.numbers)
            and other.amounts <= self.amounts
            and other.negations == self.negations
            and all(other.stems & words in (frozenset(), self.stems & words) for words in _ALTERNATIVES)
            and _same_order(self.words, other.words, (self.names | other.names) & other.stems)
            and _same_order(self.numbers, other.numbers, frozenset(other.numbers))
        )


def _same_order(ones: Sequence[str], others: Sequence[str], among: frozenset[str]) -> bool:
    return len(among) < 2 or [one for one in ones if one in among] == [other for other in others if other in among]
