"""Moving a vault: export page by page, import into a vault that holds nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from shared.domain.errors import Conflict, InvalidRequest, Unavailable
from shared.domain.memory import Memory, VaultRef
from shared.domain.sizes import ROWS_BYTES, wrapped_bytes
from shared.domain.transfer import MAX_PAGE_BYTES, MAX_PAGE_ROWS, canonical_uuid, parse_line, row_json
from shared.ports.directory import VaultRecord
from shared.ports.store import SortKey
from shared.usecases.models import bind
from shared.usecases.services import Answer, Caller, Services

ROWS_AT_ONCE = 500
MODEL_FIELD = "embedding_model"
"""Beside the row: the model that the vault is bound to, so that an import makes the same scores."""


@dataclass(frozen=True, slots=True)
class ExportPage:
    """Lines without their line ends; `next_cursor` while rows remain."""

    lines: list[str]
    next_cursor: str | None


def export_page(services: Services, caller: Caller, cursor: str | None, limit: int) -> ExportPage:
    """Up to `limit` rows of all tiers in (date, id) order, at most 4 MiB and what an answer can hold.

    Raises `InvalidRequest` for a limit out of range and for a cursor that this vault did not give.
    """
    if not 1 <= limit <= MAX_PAGE_ROWS:
        raise InvalidRequest.field("limit", f"must be an integer 1 to {MAX_PAGE_ROWS}")
    after = None if cursor is None else _read_cursor(caller.vault, cursor)
    lines: list[str] = []
    size = wrapped = 0
    while True:
        # One row more than wanted tells whether any remain.
        asked = min(limit + 1 - len(lines), ROWS_AT_ONCE)
        rows = services.store.export(caller.vault, after, asked)
        for row, line in zip(rows, _lines(services, caller.record, rows), strict=True):
            size += len(line.encode("utf-8")) + 1
            wrapped += wrapped_bytes(line) + 2
            full = len(lines) == limit or size > MAX_PAGE_BYTES or wrapped > ROWS_BYTES
            if full and lines and after is not None:
                return ExportPage(lines, _write_cursor(caller.vault, after))
            lines.append(line)
            after = (row.date_ms, row.id)
        if len(rows) < asked:
            return ExportPage(lines, None)


def _lines(services: Services, record: VaultRecord, rows: Sequence[Memory]) -> list[str]:
    vault = record.ref
    consolidations = {row.consolidated_by for row in rows if row.consolidated_by is not None}
    named = consolidations | {row.origin for row in rows if row.origin is not None}
    headers = services.store.batches(vault, sorted(named)) if named else {}
    written = services.store.written_by(vault, sorted(consolidations)) if consolidations else {}
    into = {batch_id: [memory.id for memory in memories] for batch_id, memories in written.items()}
    return [
        json.dumps(
            {
                **row_json(
                    row,
                    headers.get(row.origin) if row.origin is not None else None,
                    headers.get(row.consolidated_by) if row.consolidated_by is not None else None,
                    into.get(row.consolidated_by, []) if row.consolidated_by is not None else [],
                ),
                MODEL_FIELD: record.model,
            },
            ensure_ascii=False,
            separators=(",", ":"),
        )
        for row in rows
    ]


def _seal(vault: VaultRef, position: str) -> str:
    # The vault's id is random and never shown, so that nobody can make a cursor for it.
    return hashlib.sha256(f"{vault.vault_id}\n{vault.epoch}\n{position}".encode()).hexdigest()[:16]


def _write_cursor(vault: VaultRef, after: SortKey) -> str:
    position = f"{after[0]}.{after[1]}"
    return base64.urlsafe_b64encode(f"{position}.{_seal(vault, position)}".encode()).decode("ascii").rstrip("=")


def _read_cursor(vault: VaultRef, cursor: str) -> SortKey:
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode("ascii")
        position, _ = text.rsplit(".", 1)
        date, memory_id = position.split(".")
        after = int(date), memory_id
        # Decoding is lenient; only the exact text that was given out is taken back.
        if canonical_uuid(memory_id) == memory_id and _write_cursor(vault, after) == cursor:
            return after
    except ValueError:
        pass
    raise InvalidRequest.field(
        "cursor", "was not given by an export of this vault", "Begin again without a cursor, or repeat X-Next-Cursor."
    )


def import_page(
    services: Services, caller: Caller, lines: Sequence[tuple[int, Mapping[str, object]]], finish: bool
) -> Answer:
    """Take export lines, each with its 1-based number. Nothing is visible before the page that says `finish`.

    Raises `InvalidRequest` for a bad line, of whose page nothing is kept, and `Conflict` ``vault_not_empty``. A row
    that came before is passed over; with other content or lineage than before it is a bad line.
    """
    now_ms = services.clock.now_ms()
    parsed = [(number, parse_line(number, line, now_ms)) for number, line in lines]
    rows: dict[str, tuple[int, Memory]] = {}
    for number, line in parsed:
        first, same = rows.setdefault(line.memory.id, (number, line.memory))
        if same != line.memory:
            raise InvalidRequest(
                f"line {number}: the id was on line {first} with other content", extra={"line": number}
            )
    memories = [memory for _, memory in rows.values()]
    opened = caller.record.importing
    if opened is None:
        done = _finished_already(services, caller.vault, memories, finish)
        if done is not None:
            return done
    if lines or finish:
        bind(services, _with_model_of(services, caller, lines))
    if opened is None:
        opened = services.directory.open_import(caller.vault)
    importing = VaultRef(caller.record.vault_id, opened)
    # Sealed before the first row comes: a write that began before the import either made the vault not empty, or is
    # sent back to find the import open. Neither can be lost when the import becomes the content.
    if not services.store.seal(caller.vault):
        services.directory.cancel_import(caller.vault, opened)
        raise _not_empty()
    held = services.store.get(importing, list(rows)) if rows else {}
    for number, memory in rows.values():
        if memory.id in held and replace(held[memory.id], created_ms=memory.created_ms) != memory:
            raise InvalidRequest(
                f"line {number}: the id came on an earlier page with other content",
                hint="Take all pages from one export; DELETE /v1/memory throws this import away.",
                extra={"line": number},
            )
    batches = {batch.id: batch for _, line in parsed for batch in line.batches}
    total = services.store.restore(importing, memories, list(batches.values()), now_ms)
    if finish:
        _finish(services, caller, importing)
    return {"status": "complete" if finish else "open", "stored": len(rows) - len(held), "total": total}


def _with_model_of(services: Services, caller: Caller, lines: Sequence[tuple[int, Mapping[str, object]]]) -> Caller:
    """The caller naming the model of the exported vault, unless there is a choice already or that model is unknown."""
    exported = next((line.get(MODEL_FIELD) for _, line in lines), None)
    if caller.model is None and caller.record.model is None and isinstance(exported, str):
        return replace(caller, model=exported if exported in services.embedders else None)
    return caller


def _finished_already(services: Services, vault: VaultRef, memories: Sequence[Memory], finish: bool) -> Answer | None:
    """The answer to a last page that is sent again; None when the vault is empty and an import can begin."""
    total = sum(services.store.totals(vault).memories.values())
    if total == 0:
        return None
    if finish:
        held = services.store.get(vault, [memory.id for memory in memories])
        if all(memory.id in held and _same(memory, held[memory.id]) for memory in memories):
            return {"status": "complete", "stored": 0, "total": total}
    raise _not_empty()


def _same(sent: Memory, held: Memory) -> bool:
    return (sent.tier, sent.text, sent.role, sent.date_ms) == (held.tier, held.text, held.role, held.date_ms)


def _finish(services: Services, caller: Caller, importing: VaultRef) -> None:
    services.store.complete_import(importing)
    services.directory.finish_import(caller.vault, importing.epoch)
    # The empty content that the import replaced goes now, or when the server starts again.
    with suppress(Unavailable):
        services.store.purge(caller.record.vault_id, importing.epoch)


def _not_empty() -> Conflict:
    return Conflict(
        "This vault holds memories of its own; an import needs an empty one.",
        code="vault_not_empty",
        hint="Import with the key of a new vault, or empty this one with DELETE /v1/memory.",
    )
