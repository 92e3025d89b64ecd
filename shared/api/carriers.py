"""Where a request carries its memory key, and what else its headers and its query say."""

from __future__ import annotations

from collections.abc import Mapping

from shared.api.models.fields import MAX_SESSION_CHARACTERS
from shared.domain.errors import InvalidRequest, UnsupportedMedia
from shared.domain.text import storable_problem

KEY_PREFIXES = ("mk_", "mk-")
JSON_TYPES = frozenset(("", "application/json"))
JSONL_TYPES = JSON_TYPES | {"application/x-ndjson", "application/jsonl", "text/plain", "application/octet-stream"}


def presented_key(headers: Mapping[str, str]) -> str | None:
    """The first memory key among the carriers, suffix included; None without one.

    A carrier that holds something else, such as a provider's key in `Authorization`, is passed over.
    """
    scheme, _, credentials = headers.get("authorization", "").strip().partition(" ")
    for value in (
        headers.get("x-memory-key", ""),
        credentials if scheme.lower() == "bearer" else "",
        headers.get("x-api-key", ""),
        headers.get("x-goog-api-key", ""),
    ):
        if value.strip().startswith(KEY_PREFIXES):
            return value.strip()
    return None


def check_content_type(headers: Mapping[str, str], lines: bool) -> None:
    """Raises `UnsupportedMedia` unless the body is JSON, or JSON lines where those are taken."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in (JSONL_TYPES if lines else JSON_TYPES) or (kind.startswith("application/") and kind.endswith("+json")):
        return
    raise UnsupportedMedia(
        "This endpoint does not take that Content-Type.",
        hint="Send Content-Type: " + ("application/x-ndjson or text/plain." if lines else "application/json."),
    )


def session_of(headers: Mapping[str, str], in_body: str | None) -> str | None:
    """The session a request names, the body before the header. An empty name is none."""
    if in_body:
        return in_body
    named = headers.get("x-session-id", "")
    if len(named) > MAX_SESSION_CHARACTERS:
        raise InvalidRequest.field("X-Session-ID", f"must have at most {MAX_SESSION_CHARACTERS} characters")
    problem = storable_problem(named)
    if problem is not None:
        raise InvalidRequest.field("X-Session-ID", problem)
    return named or None


def refuse_unknown(query: Mapping[str, str], known: tuple[str, ...]) -> None:
    """For calls where a misspelt parameter would do something far larger than was meant."""
    for name in query:
        if name not in known:
            raise InvalidRequest.field(name, "is not a parameter of this call", f"It takes: {', '.join(known)}.")


def flag(query: Mapping[str, str], name: str) -> bool:
    """A parameter that is ``true`` or ``false``, by default false."""
    value = query.get(name, "false")
    if value not in ("true", "false"):
        raise InvalidRequest.field(name, "must be true or false")
    return value == "true"


def whole(query: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    """A parameter that is an integer from `low` to `high`."""
    value = query.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) <= 18 and low <= int(value) <= high):
        raise InvalidRequest.field(name, f"must be an integer from {low} to {high}")
    return int(value)
