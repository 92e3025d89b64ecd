"""A part of a text that is too long to be shown whole: verbatim, and marked where something was left out."""

from __future__ import annotations

from collections.abc import Sequence

from shared.retrieval.chunks import chunks, sentences
from shared.retrieval.function_words import content_words
from shared.retrieval.tokens import tokens

BEFORE, AFTER = "… ", " …"
MARK_BYTES = len(BEFORE.encode("utf-8"))


def excerpt(text: str, question: frozenset[str], max_bytes: int, passage: slice | None = None) -> str:
    """The text where it fits `max_bytes` of UTF-8, else one stretch of it.

    `question` holds the stems that were asked for. The stretch begins with the passage that holds most of them
    (`fullest_passage`, when it is not given), or with its sentence that does where the passage itself does not fit;
    it goes on as far as there is room, and begins earlier where the text ends before. Cuts fall between words where
    there are any. `max_bytes` leaves room for both marks and a character at least.
    """
    if len(text.encode("utf-8")) <= max_bytes:
        return text
    room = max_bytes - 2 * MARK_BYTES
    passage = passage or fullest_passage(text, question)
    start, best = passage.start, text[passage]
    if len(best.encode("utf-8")) > room:
        start += _fullest(sentences(best), question).start
    start += len(text[start:]) - len(text[start:].lstrip())
    before, behind = text[:start], text[start:].encode("utf-8")
    if len(behind) > room:
        shown = _without_torn_word(behind[:room].decode("utf-8", "ignore"), text[start:])
        return (BEFORE if before.strip() else "") + shown.strip() + AFTER
    tail = before.encode("utf-8")[-(room - len(behind)) :].decode("utf-8", "ignore") if len(behind) < room else ""
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
