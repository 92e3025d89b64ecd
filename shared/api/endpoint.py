"""The one shell around every use case: who calls, may they, what do they send, what do they get.

Order: key → scope → content type → size → JSON → fields → use case. Nothing of a request is looked at before the key
is known to be good, and nothing is written before all of it is.
"""

from __future__ import annotations

import hashlib
import logging
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, Self, TypeVar

from shared.api import carriers
from shared.api.http import (
    Event,
    HttpRequest,
    LambdaReply,
    Reply,
    error_wire,
    request_id,
    request_of,
    wire,
)
from shared.api.routes import REFLECT, Route, named
from shared.domain.errors import (
    InsufficientScope,
    InvalidRequest,
    StaleEpoch,
    StrataError,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from shared.domain.sizes import wrapped_bytes
from shared.ports.telemetry import (
    BUSY,
    CONFLICTS,
    EMBEDDING_UNAVAILABLE,
    SEARCH_UNAVAILABLE,
    SERVER_ERRORS,
    STORAGE_UNAVAILABLE,
    Telemetry,
)
from shared.usecases.keys import authenticate
from shared.usecases.services import Caller, Services

log = logging.getLogger("strata.api")

Provider = Callable[[], Services]

MAX_ATTEMPTS = 8
INTERNAL, UNAVAILABLE, CONFLICT = 500, 503, 409
_OUTAGES = {
    "busy": BUSY,
    "storage_unavailable": STORAGE_UNAVAILABLE,
    "search_unavailable": SEARCH_UNAVAILABLE,
    "embedding_unavailable": EMBEDDING_UNAVAILABLE,
}
# What a function may return is 6 MB; answers are cut well below by the use cases.
MAX_WRAPPED_BYTES = 6 * 1024 * 1024 - 64 * 1024


class Body(Protocol):
    """A kind of body: it knows how to read itself and what it says about session and embedding model."""

    @property
    def session_id(self) -> str | None: ...

    @property
    def embeddings(self) -> str | None: ...

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """Raises `InvalidRequest` or `TooLarge`."""
        ...


B = TypeVar("B", bound=Body)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[B]):
    """An authenticated, permitted and well-formed request."""

    services: Services
    caller: Caller
    body: B
    http: HttpRequest

    def takes(self, *parameters: str) -> None:
        """Refuse every other query parameter."""
        carriers.refuse_unknown(self.http.query, parameters)

    def flag(self, name: str) -> bool:
        return carriers.flag(self.http.query, name)

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        return carriers.whole(self.http.query, name, default, low, high)

    def refuse_blank_session(self) -> None:
        """For a call where a session left empty by mistake would mean something far larger."""
        if self.http.headers.get("x-session-id") == "" or self.body.session_id == "":
            raise InvalidRequest.field(
                "X-Session-ID", "is empty", "Name a session, or leave it out for the whole vault."
            )

    def idempotency(self) -> tuple[str, str] | None:
        """(the client's name for this request, hash of all that it covers: the body and the session header)."""
        name = self.http.headers.get("idempotency-key")
        if name is None:
            return None
        covered = hashlib.sha256(self.http.raw)
        covered.update(b"\0" + self.http.headers.get("x-session-id", "").encode("utf-8", "surrogatepass"))
        return name, covered.hexdigest()


class Handler:
    """What Lambda calls. `route` is what it answers, `body` what it takes there (None where no key is needed)."""

    def __init__(
        self,
        route: Route,
        body: type[Body] | None,
        serve: Callable[[HttpRequest], Reply],
        services: Provider | None = None,
    ) -> None:
        """Without `services` a call is neither counted nor told of."""
        self.route = route
        self.body = body
        self._serve = serve
        self._services = services

    def __call__(self, event: Event, context: object = None) -> LambdaReply:
        if self._services is None:
            return _answered(self.route, event, self._serve)[0]
        id_ = request_id(event)
        try:
            telemetry = self._services().telemetry
        except Exception as error:
            return error_wire(known_error(self.route, id_, error), id_)
        with telemetry.invocation(self.route.name, id_, context) as facts:
            reply, code = _answered(self.route, event, self._serve)
            facts["status"] = reply["statusCode"]
            if code is not None:
                facts["code"] = code
                count_failure(telemetry, self.route, reply["statusCode"], code)
            return reply


def endpoint(name: str, services: Provider, body: type[B]) -> Callable[[Callable[[Call[B]], Reply]], Handler]:
    """Make a Lambda handler of the function that answers the route `name`; `body` is what it takes."""
    route = named(name)

    def decorate(use: Callable[[Call[B]], Reply]) -> Handler:
        return Handler(route, body, lambda http: _served(route, http, services(), body, use), services)

    return decorate


def public(name: str) -> Callable[[Callable[[HttpRequest], Reply]], Handler]:
    """Make a Lambda handler of a function that needs no key."""
    return lambda use: Handler(named(name), None, use)


def _answered(route: Route, event: Event, use: Callable[[HttpRequest], Reply]) -> tuple[LambdaReply, str | None]:
    """The reply on the wire, whatever happens, and its error's code."""
    id_ = request_id(event)
    try:
        reply = use(request_of(event))
        sent = wire(reply.status or route.success, reply.body, reply.content_type, reply.headers, id_)
        if wrapped_bytes(sent["body"]) > MAX_WRAPPED_BYTES:
            raise TooLarge("The answer is larger than one response may be.", hint="Ask for fewer rows at once.")
        return sent, reply.code
    except Exception as error:
        known = known_error(route, id_, error)
        return error_wire(known, id_), known.code


def known_error(route: Route, id_: str, error: Exception) -> StrataError:
    """What to answer for it. What nobody foresaw is logged."""
    if isinstance(error, StrataError) and error.code != StrataError.code:
        return error
    _log_failure(route, id_, error)
    if isinstance(error, StrataError):
        return error
    hint = "It is not your request. Try again; when it stays, report the request id."
    return StrataError(f"Something went wrong on the server (request {id_}).", hint=hint)


def count_failure(telemetry: Telemetry, route: Route, status: int, code: str) -> None:
    """Tell the metrics of an answer with that `status` to a request of `route`."""
    if status == INTERNAL:
        telemetry.record(SERVER_ERRORS)
    elif status == UNAVAILABLE:
        if code in _OUTAGES:
            telemetry.record(_OUTAGES[code])
    elif status == CONFLICT and REFLECT in (route.scopes or ()):
        telemetry.record(CONFLICTS)


def _served(
    route: Route, http: HttpRequest, services: Services, body: type[B], use: Callable[[Call[B]], Reply]
) -> Reply:
    caller = _permitted(route, http, services)
    if http.raw:
        carriers.check_content_type(http.headers, lines=route.content == "jsonl")
    sent = body.read(http.raw)
    session_id = carriers.session_of(http.headers, sent.session_id)
    model = sent.embeddings or http.headers.get("x-embedding-model") or None

    def once(caller: Caller) -> Reply:
        return use(Call(services, replace(caller, session_id=session_id, model=model), sent, http))

    return as_current(caller, lambda: _permitted(route, http, services), once)


def as_current(caller: Caller, again: Callable[[], Caller], use: Callable[[Caller], T]) -> T:
    """`use` of the caller, and of the caller as `again` finds them where the vault was emptied meanwhile.

    Raises `Unavailable` where that goes on and on.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            return use(caller)
        except StaleEpoch:
            time.sleep(random.uniform(0, 0.01 * 2**attempt))
            caller = again()
    raise Unavailable("The vault keeps being emptied meanwhile; try again.", code="busy", retry_after=1)


def identified(http: HttpRequest, services: Services) -> Caller:
    """Who presents the key of this request. Raises `Unauthorized`."""
    presented = carriers.presented_key(http.headers)
    if presented is None:
        raise Unauthorized(
            "This request carries no memory key.",
            hint="Send it as `Authorization: Bearer mk_...` or `X-Memory-Key: mk_...`.",
        )
    return authenticate(services, presented)


def permitted(caller: Caller, needed: frozenset[str]) -> Caller:
    """The caller, if their key (after its suffix) has every scope that is needed. Raises `InsufficientScope`."""
    missing = sorted(needed - caller.scopes)
    if missing:
        raise InsufficientScope(
            f"This key lacks the scope {' and '.join(missing)}.",
            hint="Use a key that has it, without a suffix that takes it away.",
            extra={"missing": missing},
        )
    return caller


def _permitted(route: Route, http: HttpRequest, services: Services) -> Caller:
    # Deny by default: a route that names no scope lets nobody in.
    return permitted(identified(http, services), route.scopes or frozenset(("no key has this",)))


def _log_failure(route: Route, id_: str, error: Exception) -> None:
    """Where it happened, without the exception's own words: they may hold stored text or a key."""
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    log.error("request %s, %s: %s at %s", id_, route.name, type(error).__name__, " < ".join(reversed(places)))
