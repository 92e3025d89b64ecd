"""Everything that can be answered instead of a result.

The tree::

    StrataError                     code            meaning
    ├── InvalidRequest              invalid_request the request is malformed; `details` name each field
    ├── Unauthorized                unauthorized    no key, an unknown or a deleted one
    ├── InsufficientScope           insufficient_scope
    ├── NotFound                    not_found       absent, or in another vault: the two look the same
    ├── Conflict                    its own code    the state of the vault refuses it; retrying as it is cannot help
    ├── TooLarge                    too_large
    ├── UnsupportedMedia            unsupported_media_type
    ├── MethodNotAllowed            method_not_allowed
    ├── RateLimited                 rate_limited    carries `retry_after`
    ├── Unavailable                 its own code    a dependency is down or busy; carries `retry_after`
    └── VaultFull                   vault_full

Codes are part of the wire contract; the HTTP status of each lives in one table at the HTTP edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One field that is wrong. `field` is a dotted path such as ``entries.3.importance``."""

    field: str
    problem: str


class StrataError(Exception):
    """Base of every answer that is not a result.

    `message` is a sentence a person can act on, `hint` says what to do next. Neither ever holds stored text or a key.
    """

    code = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        details: Sequence[FieldProblem] = (),
        retry_after: int | None = None,
        extra: dict[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.hint = hint
        self.details = tuple(details)
        self.retry_after = retry_after
        self.extra = dict(extra or {})


class InvalidRequest(StrataError):
    """The request is malformed. Nothing was read or written."""

    code = "invalid_request"

    @classmethod
    def field(cls, field: str, problem: str, hint: str | None = None) -> InvalidRequest:
        """The usual case: exactly one field is wrong."""
        return cls(f"{field}: {problem}", hint=hint, details=[FieldProblem(field, problem)])


class Unauthorized(StrataError):
    code = "unauthorized"


class InsufficientScope(StrataError):
    code = "insufficient_scope"


class NotFound(StrataError):
    code = "not_found"


class Conflict(StrataError):
    """The vault's state refuses the request. Always constructed with its own `code`."""

    code = "conflict"


class TooLarge(StrataError):
    code = "too_large"


class UnsupportedMedia(StrataError):
    code = "unsupported_media_type"


class MethodNotAllowed(StrataError):
    code = "method_not_allowed"


class RateLimited(StrataError):
    code = "rate_limited"


class Unavailable(StrataError):
    """A dependency cannot answer now: `search_unavailable`, `embedding_unavailable`, `busy`, `storage_unavailable`."""

    code = "unavailable"


class VaultFull(StrataError):
    code = "vault_full"


class StaleEpoch(StrataError):
    """The vault was emptied or replaced while the call ran. Callers read the vault record again and start over."""

    code = "stale_epoch"
