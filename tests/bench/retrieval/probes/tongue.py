"""What is needed of a language: facts with their questions, and the parts of rows that do not answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tongue:
    """`facts` are rows and questions. `frames` have the slots a (a name), b (a thing) and c (an ending)."""

    facts: tuple[tuple[str, str], ...]
    frames: tuple[str, ...]
    names: tuple[str, ...]
    things: tuple[str, ...]
    ends: tuple[str, ...]
