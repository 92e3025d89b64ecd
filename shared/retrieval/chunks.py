"""Passages of a memory: what one vector and one word score stand for."""

from __future__ import annotations

import re

from shared.domain.readable_dates import MONTHS
from shared.domain.times import EPOCH, MILLISECOND

TARGET = 450
"""Characters of a passage at most."""

# A sentence with its closing punctuation and the white space behind it, or a line with its break.
_UNIT = re.compile(r"[^\n]*?(?:[.!?…][\"'”’)\]]*[^\S\n]+|[。！？]+|\n+)|[^\n]+", re.DOTALL)
_LAST_SPACE = re.compile(r".*\s", re.DOTALL)


def chunks(text: str) -> list[str]:
    """Cut a text into passages of at most `TARGET` characters, in order; joined they are the text again.

    Cuts fall at sentence or line ends where there are any, else at white space, else anywhere. The empty text has one
    empty passage, so that every memory has at least one.
    """
    if len(text) <= TARGET:
        return [text]
    passages: list[str] = []
    current = ""
    for unit in sentences(text):
        rest = unit
        if len(current) + len(rest) <= TARGET:
            current += rest
            continue
        if current:
            passages.append(current)
        while len(rest) > TARGET:
            cut = _cut(rest)
            passages.append(rest[:cut])
            rest = rest[cut:]
        current = rest
    if current:
        passages.append(current)
    return passages


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, in order, each with the white space behind it; joined they are the text."""
    return _UNIT.findall(text)


def _cut(run: str) -> int:
    space = _LAST_SPACE.match(run, 0, TARGET)
    return space.end() if space is not None and space.end() > TARGET // 2 else TARGET


def embedded_text(role: str, date_ms: int, passage: str) -> str:
    """What the embedding model is given for a passage: ``role (date): text``, the date as a person would write it."""
    try:
        day = EPOCH + date_ms * MILLISECOND
    except OverflowError:
        return f"{role}: {passage}"
    return f"{role} ({day.day} {MONTHS[day.month - 1]} {day.year}): {passage}"
