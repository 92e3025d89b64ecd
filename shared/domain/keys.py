"""Memory keys: their form, the suffixes that narrow one request, and the scopes a key can carry."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from shared.domain.errors import Unauthorized

READ = "memories:read"
WRITE = "memories:write"
REFLECT = "memories:reflect"
DELETE = "memories:delete"
CURATE = "memories:curate"
ADMIN = "keys:admin"
SCOPES = frozenset((READ, WRITE, REFLECT, DELETE, CURATE, ADMIN))

_PRESENTED = re.compile(r"(mk[_-][A-Za-z0-9._-]{1,128})(?::(.*))?", re.ASCII | re.DOTALL)
_SUFFIXES = {"read": frozenset((READ,)), "write": frozenset((WRITE,)), "off": frozenset[str]()}
# A name of fewer characters would be given away by showing its end.
_SHOW_END_FROM = 16


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """What a request carries: the key itself and, after a colon, the suffix (not checked yet)."""

    key: str
    suffix: str | None


def parse(presented: str) -> PresentedKey | None:
    """The parts of ``mk_…`` or ``mk_…:suffix``; None when the text is no well-formed key."""
    match = _PRESENTED.fullmatch(presented)
    return PresentedKey(match[1], match[2]) if match else None


def hash_key(key: str) -> str:
    """SHA-256 in hexadecimal: the only form in which a key is kept."""
    return hashlib.sha256(key.encode("utf-8")).hexdigest()


def mask(key: str) -> str:
    """The key fit for showing: its prefix and, when it is long enough, its last four characters."""
    prefix, secret = key[:3], key[3:]
    return f"{prefix}…{secret[-4:]}" if len(secret) >= _SHOW_END_FROM else f"{prefix}…"


def narrow(scopes: Iterable[str], suffix: str | None) -> frozenset[str]:
    """What is left of `scopes` under a suffix: an intersection, never more. Raises `Unauthorized` for unknown ones."""
    if suffix is None:
        return frozenset(scopes)
    if suffix not in _SUFFIXES:
        raise Unauthorized(
            "The suffix after the memory key is unknown.",
            hint="Use :read, :write or :off, or the key without a suffix.",
        )
    return frozenset(scopes) & _SUFFIXES[suffix]
