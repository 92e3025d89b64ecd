"""Export lines: one JSON object a row, with everything that an import needs to make the vault as it was.

A line carries the row, its lineage in words of the API (`batch_id`, `consolidated_into`), and what only an import
reads: `entry` and `batch` (the header of the batch that wrote a reflection), `consolidation` (position in, and header
of, the batch that consolidated the row). Open leases do not travel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from shared.domain.batch import MAX_ENTRIES, MAX_ENTRY_CHARACTERS, Batch, Created, State
from shared.domain.errors import FieldProblem, InvalidRequest
from shared.domain.memory import MAX_IMPORTANCE, MIN_IMPORTANCE, RAW, REFLECTION, TIERS, Covers, Memory
from shared.domain.selection import MAX_ROWS
from shared.domain.text import MAX_BYTES, MAX_CHARACTERS, est_tokens, is_blank, storable_problem
from shared.domain.times import parse_instant, to_text

MAX_PAGE_BYTES = 4 * 1024 * 1024
MAX_PAGE_ROWS, DEFAULT_PAGE_ROWS = 5_000, 1_000
MAX_LABEL_CHARACTERS = 1_024
_MAX_COUNT = 2**53 - 1
_BATCH_ID = re.compile(r"cb_[0-9A-Za-z_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Line:
    """One row of an import and the headers of the batches that it names."""

    memory: Memory
    batches: tuple[Batch, ...]


def row_json(
    memory: Memory, origin: Batch | None, consolidation: Batch | None, consolidated_into: Sequence[str]
) -> dict[str, object]:
    """The export line of a row. `origin` wrote it, `consolidation` is the committed batch that it is a source of."""
    line: dict[str, object] = {
        "id": memory.id,
        "tier": memory.tier,
        "content": memory.text,
        "role": memory.role,
        "date": to_text(memory.date_ms),
        "session_id": memory.session_id,
        "importance": memory.importance,
        "covers": covers_json(memory.covers),
        "batch_id": memory.origin,
        "consolidated_into": list(consolidated_into),
        "created_at": to_text(memory.created_ms),
    }
    if origin is not None:
        line["entry"] = memory.entry
        line["batch"] = header_json(origin)
    if consolidation is not None:
        line["consolidation"] = {"position": memory.position, "batch": header_json(consolidation)}
    return line


def covers_json(covers: Covers | None) -> dict[str, str] | None:
    return None if covers is None else {"from": to_text(covers.from_ms), "to": to_text(covers.to_ms)}


def header_json(batch: Batch) -> dict[str, object]:
    return {
        "id": batch.id,
        "tier": batch.tier,
        "count": batch.count,
        "tokens": batch.tokens,
        "covers": covers_json(batch.covers),
        "leased_at": to_text(batch.leased_ms),
        "expires_at": to_text(batch.expires_ms),
        "lease_ms": batch.lease_ms,
        "renewed_at": None if batch.renewed_ms is None else to_text(batch.renewed_ms),
        "committed_at": None if batch.committed_ms is None else to_text(batch.committed_ms),
        "created": [{"id": created.id, "importance": created.importance} for created in batch.created],
        "sources_consolidated": batch.sources_consolidated,
        "sources_deleted": batch.sources_deleted,
    }


def parse_line(number: int, line: Mapping[str, object], now_ms: int) -> Line:
    """The row of the line with the 1-based `number`. Raises `InvalidRequest` naming the line and the field."""
    try:
        return _parse(_Fields("", line), now_ms)
    except _BadFieldError as bad:
        path = f"line.{number}.{bad.field}"
        raise InvalidRequest(
            f"line {number}: {bad.field} {bad.problem}",
            hint="Nothing of this page was kept. Send lines as the export wrote them.",
            details=[FieldProblem(path, bad.problem)],
            extra={"line": number},
        ) from None


class _BadFieldError(Exception):
    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field
        self.problem = problem


class _Fields:
    """Typed reads of one JSON object; every refusal names the field by its path."""

    def __init__(self, path: str, fields: Mapping[str, object]) -> None:
        self._path = path
        self._fields = fields

    def refuse(self, name: str, problem: str) -> _BadFieldError:
        return _BadFieldError(self._path + name, problem)

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise self.refuse(name, "must be a string")
        problem = storable_problem(value)
        if problem is not None:
            raise self.refuse(name, problem)
        return value

    def label(self, name: str) -> str:
        value = self.text(name)
        if not 1 <= len(value) <= MAX_LABEL_CHARACTERS:
            raise self.refuse(name, f"must hold 1 to {MAX_LABEL_CHARACTERS} characters")
        return value

    def number(self, name: str, low: int, high: int) -> int:
        value = self._fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.refuse(name, f"must be an integer {low} to {high}")
        return value

    def instant(self, name: str) -> int:
        try:
            return parse_instant(self.text(name))
        except ValueError as error:
            raise self.refuse(name, f"is not a date or a datetime ({error})") from None

    def uuid(self, name: str) -> str:
        value = self.text(name)
        canonical = canonical_uuid(value)
        if canonical is None:
            raise self.refuse(name, "must be a UUID")
        return canonical

    def batch_id(self, name: str) -> str:
        value = self.text(name)
        if not _BATCH_ID.fullmatch(value):
            raise self.refuse(name, "must be a batch id")
        return value

    def inner(self, name: str) -> _Fields:
        return self._object(name, self._fields.get(name))

    def items(self, name: str, most: int) -> list[_Fields]:
        value = self._fields.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise self.refuse(name, f"must be a list of at most {most} items")
        return [self._object(f"{name}.{number}", item) for number, item in enumerate(value)]

    def _object(self, name: str, value: object) -> _Fields:
        if not isinstance(value, dict):
            raise self.refuse(name, "must be an object")
        return _Fields(f"{self._path}{name}.", value)


def canonical_uuid(text: str) -> str | None:
    """Lower-case text with hyphens, or None when it is no UUID written that way (in either case)."""
    try:
        canonical = str(UUID(text))
    except ValueError:
        return None
    return canonical if canonical == text.lower() else None


def _parse(fields: _Fields, now_ms: int) -> Line:
    tier = fields.number("tier", min(TIERS), max(TIERS))
    text = _content(fields, tier)
    batches = []
    covers = importance = origin = entry = session_id = None
    if tier == RAW:
        session_id = fields.label("session_id") if fields.has("session_id") else None
        for name in ("importance", "covers", "batch_id"):
            if fields.has(name):
                raise fields.refuse(name, "belongs to reflections only")
    else:
        importance = fields.number("importance", MIN_IMPORTANCE, MAX_IMPORTANCE)
        covers = _covers(fields.inner("covers"))
        origin = fields.batch_id("batch_id")
        entry = fields.number("entry", 0, MAX_ENTRIES - 1)
        header = _header(fields.inner("batch"))
        if header.id != origin or header.tier != tier - 1:
            raise fields.refuse("batch", "is not the header of the batch in `batch_id`")
        batches.append(header)
    consolidated_by = position = None
    if fields.has("consolidation"):
        consolidation = fields.inner("consolidation")
        header = _header(consolidation.inner("batch"))
        if header.tier != tier:
            raise consolidation.refuse("batch", "is the header of a batch of another tier")
        consolidated_by = header.id
        position = consolidation.number("position", 0, header.count - 1)
        batches.append(header)
    date_ms = fields.instant("date")
    if covers is not None and date_ms != covers.to_ms:
        raise fields.refuse("date", "of a reflection is the end of its coverage")
    memory = Memory(
        id=fields.uuid("id"),
        tier=tier,
        text=text,
        role=fields.label("role"),
        date_ms=date_ms,
        tokens=est_tokens(text),
        created_ms=fields.instant("created_at") if fields.has("created_at") else now_ms,
        session_id=session_id,
        importance=importance,
        covers=covers,
        origin=origin,
        entry=entry,
        consolidated_by=consolidated_by,
        position=position,
    )
    return Line(memory, tuple(batches))


def _content(fields: _Fields, tier: int) -> str:
    text = fields.text("content")
    if is_blank(text):
        raise fields.refuse("content", "must hold text, not only white space")
    most = MAX_CHARACTERS if tier == RAW else MAX_ENTRY_CHARACTERS
    if len(text) > most or len(text.encode("utf-8")) > MAX_BYTES:
        raise fields.refuse("content", f"holds more than {most} characters or {MAX_BYTES} bytes of UTF-8")
    return text


def _covers(fields: _Fields) -> Covers:
    covers = Covers(fields.instant("from"), fields.instant("to"))
    if covers.from_ms > covers.to_ms:
        raise fields.refuse("to", "lies before `from`")
    return covers


def _header(fields: _Fields) -> Batch:
    created = tuple(
        Created(item.uuid("id"), item.number("importance", MIN_IMPORTANCE, MAX_IMPORTANCE))
        for item in fields.items("created", MAX_ENTRIES)
    )
    return Batch(
        id=fields.batch_id("id"),
        tier=fields.number("tier", RAW, REFLECTION),
        state=State.SETTLED,
        count=fields.number("count", 1, MAX_ROWS),
        tokens=fields.number("tokens", 0, _MAX_COUNT),
        covers=_covers(fields.inner("covers")),
        leased_ms=fields.instant("leased_at"),
        expires_ms=fields.instant("expires_at"),
        lease_ms=fields.number("lease_ms", 1, _MAX_COUNT),
        renewed_ms=fields.instant("renewed_at") if fields.has("renewed_at") else None,
        committed_ms=fields.instant("committed_at"),
        created=created,
        sources_consolidated=fields.number("sources_consolidated", 0, MAX_ROWS),
        sources_deleted=fields.number("sources_deleted", 0, MAX_ROWS),
    )
