"""Bodies of JSON lines: all lines are good, or the first bad one is named and nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.api import strict_json
from shared.api.errors import invalid
from shared.api.models.fields import Content, Role, Timestamp
from shared.domain.errors import FieldProblem, InvalidRequest, TooLarge
from shared.domain.text import check_text, is_blank
from shared.usecases.ingest import NewMessage

MAX_LINES = 10_000
# No page of an export comes near: its lines have some 200 bytes at least, and 4 MiB in all.
MAX_IMPORT_LINES = 50_000


@dataclass(frozen=True, slots=True)
class ImportLines:
    """Lines of an export as (1-based number, object). May be empty: the last page need not hold a line."""

    rows: Sequence[tuple[int, dict[str, object]]]
    session_id: None = None
    embeddings: None = None

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """Raises `InvalidRequest` with the number of the first bad line, or `TooLarge`."""
        return cls(list(_objects(raw, MAX_IMPORT_LINES)))


@dataclass(frozen=True, slots=True)
class UploadLines:
    """One message a line. `total` counts the lines that are not blank."""

    messages: Sequence[NewMessage]
    total: int
    session_id: None = None
    embeddings: None = None

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """Raises `InvalidRequest` with the number of the first bad line, or `TooLarge`."""
        messages = [_message(number, row) for number, row in _objects(raw, MAX_LINES)]
        if not messages:
            raise InvalidRequest.field(
                "body", "holds no line", 'Send one JSON object a line, such as {"content": "text", "role": "user"}.'
            )
        return cls(messages, len(messages))


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, hide_input_in_errors=True)

    content: Content
    role: Role | None = None
    timestamp: Timestamp = None
    date: Timestamp = None
    tier: object = None


def _objects(raw: bytes, most: int) -> Iterator[tuple[int, dict[str, object]]]:
    strict_json.check_raw_size(raw)
    lines = [(number, line) for number, line in enumerate(raw.split(b"\n"), start=1) if not _is_blank(line, number)]
    if len(lines) > most:
        raise TooLarge(
            f"The body holds {len(lines):,} lines; at most {most:,} are taken at once.",
            hint="Split the file into several requests.",
        )
    measured = strict_json.must_be_measured(len(raw))
    size = 0
    for number, line in lines:
        where = f"line.{number}"
        try:
            row = strict_json.parse_object(strict_json.decode(line.rstrip(b"\r"), where), where)
        except InvalidRequest as error:
            raise _at_line(number, error) from None
        if measured:
            size += strict_json.compact_size(row) + 1
        yield number, row
    strict_json.check_compact_size(size)


def _is_blank(line: bytes, number: int) -> bool:
    return not (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip(b" \t\r\f\v")


def _message(number: int, row: dict[str, object]) -> NewMessage:
    where = f"line.{number}"
    try:
        line = _Line.model_validate(row)
    except ValidationError as error:
        raise _at_line(number, invalid(error, where)) from None
    if line.tier in (2, 3):
        problem = "is 2 or 3: reflections are made by a commit, or taken back by POST /v1/memory/import"
        raise _at_line(number, InvalidRequest.field(f"{where}.tier", problem))
    if is_blank(line.content):
        raise _at_line(number, InvalidRequest.field(f"{where}.content", "has no text"))
    check_text(f"{where}.content", line.content)
    date_ms = _given(row, "timestamp", line.timestamp)
    return NewMessage(line.role or "user", line.content, _given(row, "date", line.date) if date_ms is None else date_ms)


def _given(row: dict[str, object], name: str, ms: int | None) -> int | None:
    """The number 0 is what clients send that have no time; the first moment of 1970 written as text is one."""
    return None if row.get(name) == 0 else ms


def _at_line(number: int, error: InvalidRequest) -> InvalidRequest:
    return InvalidRequest(
        f"Line {number} is not usable, nothing was stored. {error.message}",
        hint=error.hint or "Correct that line and send the file again.",
        details=[FieldProblem(each.field, each.problem) for each in error.details],
        extra={"line": number},
    )
