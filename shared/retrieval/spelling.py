"""Words of the vault that a word of the question may have meant: one slip of the hand away.

Only a word that the vault does not hold is doubted, and only letters: a number is never taken for another.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from shared.retrieval.tokens import stems_of, words_by_stem

SHORTEST = 5
"""Letters of a stem that is doubted: most short ones are one slip from another word."""
DOUBTED_AT_MOST = 3
"""Words of a question, the longest."""
MEANT_AT_MOST = 5
"""Words that one may stand for."""

_LETTERS = re.compile(rf"[a-z]{{{SHORTEST},24}}")


def doubted(absent: Iterable[str]) -> list[str]:
    """Those of the stems that the vault does not hold which are looked up at all."""
    letters = [stem for stem in absent if _LETTERS.fullmatch(stem)]
    return sorted(letters, key=lambda stem: (-len(stem), stem))[:DOUBTED_AT_MOST]


def candidates(doubts: Iterable[str], text: str) -> dict[str, frozenset[str]]:
    """For each doubted stem of a question the stems that it may have meant.

    Both the stem and the word that it was made of are respelled: a slip near a word's end changes what is cut off.
    """
    doubts = list(doubts)
    words = words_by_stem(text) if doubts else {}
    return {
        stem: spellings(stem) | (stems_of(spellings(words[stem])) - {stem} if stem in words else frozenset())
        for stem in doubts
    }


def spellings(word: str) -> frozenset[str]:
    """What the word becomes by one letter left out, added or replaced, or by two neighbours changing places.

    This is a Damerau-Levenshtein distance of one, made rather than compared: some 450 candidates for eight letters.
    """
    cuts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    made = {left + right[1:] for left, right in cuts if right}
    made |= {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    for letter in string.ascii_lowercase:
        made |= {left + letter + right[1:] for left, right in cuts if right}
        made |= {left + letter + right for left, right in cuts}
    return frozenset(made - {word})


def corrected(terms: Collection[str], said: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The terms with what the doubted ones may have meant, in order, each once.

    `said` has for each doubted stem those of its spellings that some row of the vault says.
    """
    meant = chain.from_iterable(sorted(held)[:MEANT_AT_MOST] for held in said.values())
    return tuple(sorted({*terms, *meant}))
