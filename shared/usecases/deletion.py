"""Forgetting: single memories, a session's raw memories, or everything."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain import metering
from shared.domain.errors import FieldProblem, InvalidRequest, Unavailable
from shared.domain.transfer import canonical_uuid
from shared.usecases import metered
from shared.usecases.imports import refuse_while_importing
from shared.usecases.services import Answer, Caller, Services

MAX_IDS = 500
SESSION_BATCH = 500
SESSION_MS = 20_000


def delete_ids(services: Services, caller: Caller, ids: Sequence[str]) -> Answer:
    """Remove up to 500 rows of any tier. Raises `InvalidRequest`, `Conflict` ``import_open``."""
    wanted = _checked(ids)
    refuse_while_importing(caller)
    deleted = services.store.delete(caller.vault, wanted, services.clock.now_ms())
    metered.record(services, caller, metering.DELETE_IDS, sum(tokens for _, tokens in deleted.rows))
    return {
        "requested": len(wanted),
        "deleted": len(deleted.rows),
        "do_deleted": len(deleted.rows),
        "not_found": len(deleted.not_found),
        "legacy_fallback_used": 0,
        "failed": [],
    }


def _checked(ids: Sequence[str]) -> list[str]:
    if not 1 <= len(ids) <= MAX_IDS:
        raise InvalidRequest.field("ids", f"holds {len(ids)} ids; 1 to {MAX_IDS} are allowed")
    canonical = [canonical_uuid(memory_id) for memory_id in ids]
    problems = [FieldProblem(f"ids.{n}", "must be a UUID") for n, found in enumerate(canonical) if found is None]
    if problems:
        raise InvalidRequest(f"{problems[0].field}: {problems[0].problem}", details=problems)
    wanted = [found for found in canonical if found is not None]
    if len(set(wanted)) < len(wanted):
        raise InvalidRequest.field("ids", "must name every id once")
    return wanted


def delete_vault(services: Services, caller: Caller, reset: bool) -> Answer:
    """Empty the vault, or remove the raw rows of the session that the request names.

    `reset` also unbinds the embedding model of an emptied vault. A session that takes longer than 20 s answers
    ``sessionCleared: false``: what was removed stays removed, and the same call goes on.
    """
    if caller.session_id is not None:
        return _delete_session(services, caller, caller.session_id)
    epoch = services.directory.next_epoch(caller.record.vault_id, reset)
    # Nobody sees the old content any more; what is left of it goes with the change stream or the next start.
    try:
        services.store.purge(caller.record.vault_id, epoch)
        services.index.purge(caller.record.vault_id, epoch)
        purged = True
    except Unavailable:
        purged = False
    return {
        "key": caller.masked,
        "deleted": True,
        "reset": reset,
        "sessionCleared": True,
        "d1Synced": purged,
        "message": "Everything in this vault is deleted.",
    }


def _delete_session(services: Services, caller: Caller, session_id: str) -> Answer:
    refuse_while_importing(caller)
    started_ms = services.clock.now_ms()
    count = 0
    cleared = False
    while not cleared:
        ids = services.store.session_ids(caller.vault, session_id, SESSION_BATCH)
        count += len(services.store.delete(caller.vault, ids, services.clock.now_ms()).rows)
        cleared = len(ids) < SESSION_BATCH
        if services.clock.now_ms() - started_ms > SESSION_MS:
            break
    rest = "" if cleared else " There are more: call again."
    return {
        "key": caller.masked,
        "deleted": True,
        "reset": False,
        "sessionCleared": cleared,
        "d1Synced": True,
        "message": f"Deleted {count} memories of this session.{rest}",
    }
