"""Texts of several lines inside a text that is read line by line."""

from __future__ import annotations

INDENT = "  "


def indented(text: str) -> str:
    """The text with `INDENT` before every line but the first and the blank ones, at whatever Unicode calls a break.

    So no line of it can be taken for a line of the text around it.
    """
    first, *later = text.splitlines(keepends=True) or [""]
    return first + "".join(line if line.isspace() else INDENT + line for line in later)
