"""Reading a model's answer: the entries of a commit, or what is wrong with it.

Problems are told to the model and to the log, so they quote nothing of the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from shared.domain.batch import MAX_ENTRIES, MIN_ENTRIES
from shared.domain.errors import InvalidRequest
from shared.domain.lineage import check_entries
from shared.domain.memory import MAX_IMPORTANCE, MIN_IMPORTANCE

Entries = list[tuple[str, int]]

FIELDS = {"text", "importance"}
_THOUGHT = re.compile(r"\s*<(think|thinking)>.*?</\1>", re.DOTALL)
_ARRAY = re.compile(r"\[[ \t\n\r]*\{")
# Every place where an id could begin is looked at, also in the middle of a longer row of hexadecimal digits.
_ID = re.compile(r"(?=([0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}))", re.IGNORECASE)
_DECODER = json.JSONDecoder()


class Unusable(Exception):
    """The answer cannot be committed; `problems` says why, one sentence each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems[:3]) + (f"; {len(problems) - 3} more" if len(problems) > 3 else ""))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class HiddenIds:
    """What no text may hold: the ids of the batch's sources, and the batch's own."""

    batch_id: str
    source_ids: frozenset[str]

    @classmethod
    def of(cls, batch_id: str, source_ids: Iterable[str]) -> HiddenIds:
        return cls(batch_id.lower(), frozenset(_plain(source_id) for source_id in source_ids))

    def found_in(self, text: str) -> bool:
        return self.batch_id in text.lower() or any(_plain(each) in self.source_ids for each in _ID.findall(text))


def _plain(memory_id: str) -> str:
    return memory_id.replace("-", "").lower()


def read(answer: str, hidden: HiddenIds) -> Entries:
    """(text, importance) of the one array of objects in the answer, prose and fences around it or not.

    Raises `Unusable`.
    """
    found = _array(answer)
    if not MIN_ENTRIES <= len(found) <= MAX_ENTRIES:
        raise Unusable(f"the array holds {len(found)} entries; {MIN_ENTRIES} to {MAX_ENTRIES} are allowed")
    entries: Entries = []
    problems: list[str] = []
    for number, value in enumerate(found, start=1):
        try:
            entries.append(_entry(value, hidden))
        except Unusable as unusable:
            problems.extend(f"entry {number}: {problem}" for problem in unusable.problems)
    if problems:
        raise Unusable(*problems)
    return entries


def _array(answer: str) -> list[object]:
    thought = _THOUGHT.match(answer)
    position = thought.end() if thought else 0
    arrays: list[list[object]] = []
    while begin := _ARRAY.search(answer, position):
        try:
            value, position = _DECODER.raw_decode(answer, begin.start())
        except RecursionError:
            raise Unusable("the JSON array is nested too deeply") from None
        except ValueError as error:
            # What stands inside a broken array is not looked at: it might be a part of an entry's text.
            where = f" ({error.msg} at character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
            raise Unusable(f"the JSON array is broken or was cut off{where}") from None
        arrays.append(value)
    if not arrays:
        raise Unusable("there is no JSON array of objects in it")
    if len(arrays) > 1:
        raise Unusable(f"there are {len(arrays)} JSON arrays in it; one is wanted")
    return arrays[0]


def _entry(value: object, hidden: HiddenIds) -> tuple[str, int]:
    if not isinstance(value, dict) or not value.keys() >= FIELDS:
        raise Unusable("must be an object with text and importance")
    if value.keys() > FIELDS:
        raise Unusable("holds other fields than text and importance")
    text, importance = value["text"], value["importance"]
    problems = []
    if type(importance) is not int:
        problems.append(f"importance must be an integer {MIN_IMPORTANCE} to {MAX_IMPORTANCE}")
    if not isinstance(text, str):
        raise Unusable("text must be a string", *problems)
    try:
        check_entries([(text, importance if type(importance) is int else MIN_IMPORTANCE)])
    except InvalidRequest as refused:
        problems.extend(f"{each.field.rpartition('.')[2]} {each.problem}" for each in refused.details)
    if hidden.found_in(text):
        problems.append("text holds an identifier of the batch or of one of its memories; write it without")
    if problems:
        raise Unusable(*problems)
    return text, importance
