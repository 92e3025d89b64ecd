"""Opening a vault with a key, and minting, listing and deleting keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from shared.domain import keys
from shared.domain.errors import InsufficientScope, InvalidRequest, NotFound, Unauthorized
from shared.domain.times import to_text
from shared.ports.directory import KeyRecord
from shared.usecases.services import Answer, Caller, Services

DEFAULT_NAME = "New Key"


def authenticate(services: Services, presented: str) -> Caller:
    """Who presents this key. Opens a new vault for an unknown key where the operator allows that.

    Raises `Unauthorized` for anything that opens no vault.
    """
    parsed = keys.parse(presented)
    if parsed is None:
        raise Unauthorized(
            "This is not a memory key.",
            hint="A key is mk_ followed by 1 to 128 letters, digits, dots, hyphens or underscores.",
        )
    keys.narrow((), parsed.suffix)
    key_hash = keys.hash_key(parsed.key)
    opened = services.directory.open(key_hash)
    if opened is None and services.policy.auto_provision_keys:
        services.directory.add(_record(services, parsed.key, name=DEFAULT_NAME, scopes=keys.SCOPES))
        opened = services.directory.open(key_hash)
    if opened is None or opened[0].disabled:
        raise Unauthorized(
            "This memory key is unknown or was deleted.", hint="Ask the vault's owner for a key, or check for a typo."
        )
    key, vault = opened
    services.directory.touch(key.key_id, services.clock.now_ms())
    return Caller(key=key, record=vault, scopes=keys.narrow(key.scopes, parsed.suffix), masked=keys.mask(parsed.key))


def create_key(
    services: Services, caller: Caller, name: str | None, scopes: Sequence[str] | None, vault: Literal["new", "same"]
) -> Answer:
    """Mint a key for the caller's vault or for a new one. The answer is the only place that ever shows it."""
    wanted = _wanted_scopes(caller, scopes)
    text = services.ids.key()
    record = services.directory.add(
        _record(
            services,
            text,
            name=name or DEFAULT_NAME,
            scopes=wanted,
            vault_id=caller.record.vault_id if vault == "same" else None,
            minted_by=caller.key.key_id,
        )
    )
    return {"key": text, **_shown(record)}


def _wanted_scopes(caller: Caller, scopes: Sequence[str] | None) -> frozenset[str]:
    if scopes is None:
        return caller.scopes
    wanted = frozenset(scopes)
    unknown = sorted(wanted - keys.SCOPES)
    if unknown or not wanted:
        problem = f"holds unknown scopes: {', '.join(unknown)}" if unknown else "must name at least one scope"
        raise InvalidRequest.field("scopes", problem, f"Scopes are {', '.join(sorted(keys.SCOPES))}.")
    missing = sorted(wanted - caller.scopes)
    if missing:
        raise InsufficientScope(
            f"A key cannot hand on scopes that it lacks: {', '.join(missing)}.",
            hint="Ask for fewer scopes, or mint the key with one that carries them.",
        )
    return wanted


def _record(
    services: Services,
    text: str,
    *,
    name: str,
    scopes: frozenset[str],
    vault_id: str | None = None,
    minted_by: str | None = None,
) -> KeyRecord:
    return KeyRecord(
        key_id=services.ids.vault_id(),
        key_hash=keys.hash_key(text),
        vault_id=vault_id or services.ids.vault_id(),
        name=name,
        scopes=scopes,
        created_ms=services.clock.now_ms(),
        minted_by=minted_by,
    )


def _shown(key: KeyRecord) -> Answer:
    return {
        "key_id": key.key_id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "created_at": to_text(key.created_ms),
    }


def list_keys(services: Services, caller: Caller) -> Answer:
    """Keys of the caller's vault and those that the caller minted, without their text."""
    listed = services.directory.listed(caller.record.vault_id, caller.key.key_id)
    return {
        "keys": [
            {**_shown(key), "last_used_at": None if key.last_used_ms is None else to_text(key.last_used_ms)}
            for key in listed
        ]
    }


def delete_key(services: Services, caller: Caller, key_id: str) -> Answer:
    """Disable a key at once and for ever. Raises `NotFound` for a key that the caller's list would not show."""
    if not services.directory.disable(key_id, caller.record.vault_id, caller.key.key_id):
        raise NotFound("There is no such key in your list.", hint="GET /v1/keys shows the ids.")
    return {"key_id": key_id, "deleted": True}


def first_admin_key(services: Services, name: str) -> str:
    """A key with every scope for a new vault of its own; the text is returned here and kept nowhere."""
    text = services.ids.key()
    services.directory.add(_record(services, text, name=name or DEFAULT_NAME, scopes=keys.SCOPES))
    return text
