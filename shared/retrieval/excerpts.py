"""A part of a text that is too long to be shown whole: verbatim, and marked where something was left out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from shared.retrieval.chunks import chunks, sentences
from shared.retrieval.function_words import content_words
from shared.retrieval.tokens import tokens

BEFORE, AFTER = "… ", " …"
MARK_BYTES = len(BEFORE.encode("utf-8"))

_JOINER = "\u200d"
# What belongs to the character before it, beside the categories of marks: joiners, skin tones, tags of flags.
_EXTENDING = re.compile("[\u200c\u200d\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_FLAG_LETTERS = re.compile("[\U0001f1e6-\U0001f1ff]*\\Z")
_LONGEST = 32
"""Code points of one visible character that cuts look out for; longer heaps of accents are cut like words."""


def excerpt(text: str, question: frozenset[str], max_bytes: int, passage: slice | None = None) -> str:
    """The text where it fits `max_bytes` of UTF-8, else one stretch of it.

    `question` holds the stems that were asked for. The stretch begins with the passage that holds most of them
    (`fullest_passage`, when it is not given), or with its sentence that does where the passage itself does not fit;
    it goes on as far as there is room, and begins earlier where the text ends before. Cuts fall between words where
    there are any, else between visible characters: no accent, skin tone or half of a flag is parted from its letter
    where there is room for both. `max_bytes` leaves room for both marks and a code point at least.
    """
    if len(text.encode("utf-8")) <= max_bytes:
        return text
    room = max_bytes - 2 * MARK_BYTES
    passage = passage or fullest_passage(text, question)
    start, best = passage.start, text[passage]
    if len(best.encode("utf-8")) > room:
        start += _fullest(sentences(best), question).start
    start += len(text[start:]) - len(text[start:].lstrip())
    start = _untorn(text, start, -1)
    before, behind = text[:start], text[start:].encode("utf-8")
    if len(behind) > room:
        fitting = behind[:room].decode("utf-8", "ignore")
        whole = fitting[: _untorn(text[start:], len(fitting), -1)] or fitting
        shown = _without_torn_word(whole, text[start:])
        return (BEFORE if before.strip() else "") + shown.strip() + AFTER
    tail = before.encode("utf-8")[-(room - len(behind)) :].decode("utf-8", "ignore") if len(behind) < room else ""
    tail = before[_untorn(before, start - len(tail), 1) :]
    return BEFORE + (_from_whole_word(tail, before) + text[start:]).lstrip()


def question_stems(question: str) -> frozenset[str]:
    """What `excerpt` looks for: the words of a question that carry meaning."""
    return content_words(frozenset(tokens(question)))


def fullest_passage(text: str, question: frozenset[str]) -> slice:
    """Where the passage lies that holds most of the words asked for, the first of equals."""
    return _fullest(chunks(text), question)


def _fullest(parts: Sequence[str], question: frozenset[str]) -> slice:
    best = max(range(len(parts)), key=lambda number: (len(question.intersection(tokens(parts[number]))), -number))
    start = sum(map(len, parts[:best]))
    return slice(start, start + len(parts[best]))


def _untorn(text: str, at: int, step: int) -> int:
    """The nearest place from `at` on, in the direction of `step`, where a cut tears no visible character."""
    for place in range(at, at + step * _LONGEST, step):
        if not _tears(text, place):
            return place
    return at


def _tears(text: str, at: int) -> bool:
    if not 0 < at < len(text) or text[at - 1].isspace():
        return False
    if unicodedata.category(text[at])[0] == "M" or text[at - 1] == _JOINER or _EXTENDING.match(text[at]):
        return True
    flags = _FLAG_LETTERS.search(text[max(0, at - 2 * _LONGEST) : at])
    return bool(flags and len(flags[0]) % 2 and _FLAG_LETTERS.match(text[at]))


def _without_torn_word(start: str, whole: str) -> str:
    """`start` without the word that `whole` goes on with, unless that leaves less than half."""
    if whole[len(start)].isspace() or start[-1:].isspace():
        return start
    words = start.rsplit(maxsplit=1)
    return words[0] if len(words) == 2 and 2 * len(words[0]) >= len(start) else start


def _from_whole_word(end: str, whole: str) -> str:
    """`end` without the word that `whole` began before it, unless that leaves less than half."""
    begun = len(whole) - len(end)
    if not end or end[0].isspace() or whole[begun - 1].isspace():
        return end
    words = end.split(maxsplit=1)
    return words[1] if len(words) == 2 and 2 * len(words[1]) >= len(end) else end
