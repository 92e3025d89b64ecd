"""The one status table, and the shape of every error body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from shared.domain import errors
from shared.domain.errors import FieldProblem, InvalidRequest, StrataError

STATUS: tuple[tuple[type[StrataError], int], ...] = (
    (errors.InvalidRequest, 400),
    (errors.Unauthorized, 401),
    (errors.InsufficientScope, 403),
    (errors.NotFound, 404),
    (errors.MethodNotAllowed, 405),
    (errors.Conflict, 409),
    (errors.TooLarge, 413),
    (errors.UnsupportedMedia, 415),
    (errors.RateLimited, 429),
    (errors.Unavailable, 503),
    (errors.VaultFull, 507),
)

MAX_DETAILS = 20


def status_of(error: StrataError) -> int:
    """500 for everything that the table does not name."""
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def body_of(error: StrataError) -> dict[str, object]:
    """``{error, code, hint?, details?}`` and whatever else the error carries."""
    body: dict[str, object] = {"error": error.message, "code": error.code}
    if error.hint:
        body["hint"] = error.hint
    if error.details:
        body["details"] = [{"field": each.field, "problem": each.problem} for each in error.details[:MAX_DETAILS]]
    return body | error.extra


def headers_of(error: StrataError) -> dict[str, str]:
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, errors.Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.MethodNotAllowed):
        headers["Allow"] = str(error.extra.get("allow", ""))
    return headers


_OF_REQUESTS = "Correct what `details` lists and send the request again. GET /openapi.json describes every field."


def invalid(found: ValidationError, prefix: str = "", hint: str = _OF_REQUESTS) -> InvalidRequest:
    """A model's refusal as one error. Values never appear in it: they may be stored text."""
    problems = [
        FieldProblem(".".join((*([prefix] if prefix else []), *map(str, each["loc"]))) or "body", _problem(each))
        for each in found.errors(include_url=False, include_input=False)
    ]
    return _joined(problems, hint)


def _joined(problems: Sequence[FieldProblem], hint: str) -> InvalidRequest:
    first = problems[0]
    more = f" ({len(problems) - 1} more problems)" if len(problems) > 1 else ""
    return InvalidRequest(
        f"{first.field}: {first.problem}{more}",
        hint=hint,
        details=problems,
    )


_PROBLEMS: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this request",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": 'must be an integer (5.0, true and "5" are none)',
    "float_type": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must hold at least {min_length} item(s)",
    "too_long": "must hold at most {max_length} items",
    "string_too_short": "must have at least {min_length} character(s)",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
}


def _problem(found: ErrorDetails) -> str:
    wording = _PROBLEMS.get(found["type"])
    return wording.format(**found.get("ctx", {})) if wording else found["msg"]
