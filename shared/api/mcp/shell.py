"""`POST /mcp`: one HTTP request with one message, or where the revision has batches, several.

Order: origin → key → calls a minute → content type → size → JSON → envelope and headers → method → scope → use case.
Every answer is JSON-RPC. Errors that a model can act on are results of its call; the rest are JSON-RPC errors; who may
not call at all is told by the HTTP status, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from shared.api import carriers
from shared.api.endpoint import MAX_WRAPPED_BYTES, Handler, Provider, as_current, count_failure, identified, known_error
from shared.api.errors import body_of, headers_of, status_of
from shared.api.http import HttpRequest, Reply
from shared.api.mcp.metadata import challenge
from shared.api.mcp.protocol import INTERNAL_ERROR, Id, Message, Object, RpcError, id_of, message_of, values_in
from shared.api.mcp.server import Session
from shared.api.mcp.tools import Tool
from shared.api.models.base import NoBody
from shared.api.routes import Route, named
from shared.domain.errors import InsufficientScope, RateLimited, StrataError, TooLarge
from shared.domain.sizes import ENVELOPE_BYTES, MAX_RESPONSE_BYTES, wire_bytes
from shared.usecases.services import Caller, Policy, Services

MINUTE_MS = 60_000
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
NOTIFIED = 202
BESIDE_BYTES = MAX_WRAPPED_BYTES - MAX_RESPONSE_BYTES - ENVELOPE_BYTES
"""What the answers before it may take where the largest answer is still to follow."""

Catalog = Sequence[Mapping[str, object]]


class ForeignOrigin(InsufficientScope):
    code = "origin_not_allowed"


def mcp(services: Provider, catalog: Catalog) -> Handler:
    """The Lambda handler of ``/mcp``. `catalog` is what the tool table and the argument models were made into."""
    route = named("mcp")
    return Handler(route, NoBody, lambda http: _served(route, http, services(), catalog), services)


def _served(route: Route, http: HttpRequest, services: Services, catalog: Catalog) -> Reply:
    try:
        _check_origin(http.headers, services.policy.origins)
        caller = identified(http, services)
        _check_calls(services, caller)
        carriers.check_content_type(http.headers, lines=False)
        values, batched = values_in(http.raw)
        session = _session(http, services, caller, catalog)
        if not batched:
            return _one(route, http, session, values[0])
        return _many(route, http, session, values)
    except Exception as error:
        return _refused(route, http, services.policy, error)


def _session(http: HttpRequest, services: Services, caller: Caller, catalog: Catalog) -> Session:
    session_id = carriers.session_of(http.headers, None)
    model = http.headers.get("x-embedding-model") or None

    def now(found: Caller) -> Caller:
        return replace(found, session_id=session_id, model=model)

    first = now(caller)

    def current(use: Callable[[Caller], Object]) -> Object:
        return as_current(first, lambda: now(identified(http, services)), use)

    def failed(tool: Tool, error: StrataError) -> None:
        count_failure(services.telemetry, named(tool.route), status_of(error), error.code)

    return Session(services, first, catalog, current, failed, escaped=b"\\u" in http.raw)


def _one(route: Route, http: HttpRequest, session: Session, value: object) -> Reply:
    message: Message | None = None
    try:
        message = message_of(value, http.headers, escaped=session.escaped)
        if message.id is None:
            return Reply("", NOTIFIED)
        return Reply(_result(message.id, session.answer(message)))
    except Exception as error:
        modern = message is None or message.modern
        return _refused(route, http, session.services.policy, error, id_of(value), modern)


def _many(route: Route, http: HttpRequest, session: Session, values: Sequence[object]) -> Reply:
    """The answers to the requests of a batch, in their order; none to notifications.

    What may not fit beside the answers before it is not begun: its answer would be lost, and what it did would stay.
    """
    answers: list[Object] = []
    used = 0
    for number, value in enumerate(values):
        id_ = id_of(value)
        try:
            if number:
                _check_calls(session.services, session.caller)
            message = message_of(value, http.headers, batched=True, escaped=session.escaped)
            if message.id is None:
                continue
            if used > BESIDE_BYTES:
                raise TooLarge("The answers of this batch are too long.", hint="Send this one in a request of its own.")
            answers.append(_result(message.id, session.answer(message)))
            used += wire_bytes(answers[-1])
        except RpcError as error:
            answers.append(_error(id_, error.body()))
        except Exception as error:
            answers.append(_error(id_, _body(known_error(route, http.id, error))))
    if not answers:
        return Reply("", NOTIFIED)
    return Reply(answers)


def _refused(
    route: Route, http: HttpRequest, policy: Policy, error: Exception, id_: Id = None, modern: bool = True
) -> Reply:
    """Where the HTTP status says it as well."""
    if isinstance(error, RpcError):
        return Reply(_error(id_, error.body()), error.status(modern))
    known = known_error(route, http.id, error)
    status = status_of(known)
    headers = headers_of(known) | challenge(http.headers, policy, known)
    return Reply(_error(id_, _body(known)), status, headers=headers, code=known.code)


def _body(error: StrataError) -> Object:
    """A refusal as a JSON-RPC error. Its code is the HTTP status: outside the range that JSON-RPC keeps to itself."""
    status = status_of(error)
    said = error.message if error.hint is None else f"{error.message} {error.hint}"
    return {"code": INTERNAL_ERROR if status == 500 else status, "message": said, "data": body_of(error)}


def _result(id_: Id, result: Object) -> Object:
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def _error(id_: Id, error: Object) -> Object:
    return {"jsonrpc": "2.0", "id": id_, "error": error}


def _check_origin(headers: Mapping[str, str], allowed: Sequence[str]) -> None:
    """A browser says which page asks. Pages of this machine may, and those that the operator names: any other could
    be one whose name was made to lead here. Raises `ForeignOrigin`.
    """
    origin = headers.get("origin")
    if origin is None or origin in allowed or "*" in allowed:
        return
    try:
        parts = urlsplit(origin)
        # Reading the port checks it.
        known = parts.scheme in ("http", "https") and parts.hostname in LOOPBACK and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise ForeignOrigin(
            "Pages of this origin may not call this server.",
            hint="Name it in STRATA_ORIGINS (deployed: cors_origins in cdk.json) to let it in.",
        )


def _check_calls(services: Services, caller: Caller) -> None:
    """Raises `RateLimited` for a key that called more often this minute than the operator allows."""
    most = services.policy.calls_per_minute
    if most == 0:
        return
    now_ms = services.clock.now_ms()
    if services.usage.call(caller.key.key_id, now_ms // MINUTE_MS) > most:
        seconds = 60 - now_ms % MINUTE_MS // 1000
        raise RateLimited(
            f"This key may call {most} times a minute.", hint=f"Try again in {seconds} s.", retry_after=seconds
        )
