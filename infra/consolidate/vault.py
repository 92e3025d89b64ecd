"""The vault's side of a run: debt, checkout, commit, release and renew over its HTTP API."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TypeVar

from infra.consolidate import wire
from infra.consolidate.answer import Entries, HiddenIds
from shared.domain.retry import Again, Patience, asked_wait
from shared.domain.times import parse_instant

# The deployed vault ends every request within 30 s.
CALL_S = 35.0
MOST_LOST = 1
PATIENCE_S = 120.0
# By so much may the clock of the vault differ before it is believed rather than this machine's.
CLOCK_TOLERANCE_S = 2.0
MAX_SHOWN = 300
UNKNOWN_STATUS = 404
# What is said of a batch that takes no commit any more. Other conflicts leave its lease as it is.
GONE_CODES = ("lease_expired", "batch_released", "reopened", "sources_deleted")
ALREADY_COMMITTED = "already_committed"
RELEASED = "released"
KEY_STATUS = (401, 403)

Value = TypeVar("Value")


class VaultError(Exception):
    """The vault cannot be reached, refuses the key, or does not answer as a vault does. Nothing more can be done."""


class Refused(VaultError):
    """The vault refuses this request as it is. `code` is the machine-readable one of its answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    @property
    def gone(self) -> bool:
        """Whether the batch that was named takes no commit any more, or there is none."""
        return self.status == UNKNOWN_STATUS or self.code in GONE_CODES


@dataclass(frozen=True, slots=True)
class Pool:
    """What is not consolidated of one tier, leased rows included. `importance` of raw memories is their equivalent."""

    units: int
    tokens: int
    importance: int


@dataclass(frozen=True, slots=True)
class Debt:
    """The pools by tier, and the importance from which on the vault suggests to consolidate one."""

    pools: Mapping[int, Pool]
    threshold: int

    def due(self, tier: int, everything: bool) -> bool:
        pool = self.pools[tier]
        return pool.units > 0 and (everything or pool.importance >= self.threshold)


@dataclass(frozen=True, slots=True)
class NothingFree:
    """`leased` rows are in open batches, the first of which ends at `next_expiry`."""

    leased: int
    next_expiry: str | None


@dataclass(frozen=True, slots=True)
class Batch:
    """`memories` are (date, text) in order. The lease lasts `lease_s` and ends at `ends` of `time.monotonic`."""

    id: str
    tokens: int
    period: tuple[str, str]
    instructions: str
    memories: list[tuple[str, str]] = field(repr=False)
    hidden: HiddenIds = field(repr=False)
    lease_s: float
    ends: float


@dataclass(frozen=True, slots=True)
class Committed:
    created: int
    sources: int
    again: bool


class _Unknown(Again):
    """The request left and may have been carried out."""


class Vault:
    """Tries again what may pass, as long as the vault asks for, at most two minutes a request.

    A commit may be repeated, its first result is answered again. A checkout whose answer was lost may have leased a
    batch that nobody works on, and its memories are free again only when that lease ends: it is repeated once.
    """

    def __init__(self, url: str, key: str, patience: Patience) -> None:
        self._url = url
        self._key = key
        self._patience = patience

    def debt(self) -> Debt:
        answer, _ = self._call("GET", "stats")
        block = _take(answer, "reflection", dict)
        waiting = _take(block, "unconsolidated", dict)
        raw, reflections = _take(waiting, "raw", dict), _take(waiting, "tier2", dict)
        pools = {
            1: Pool(_take(raw, "units", int), _take(raw, "est_tokens", int), _take(raw, "importance_equiv", int)),
            2: Pool(
                _take(reflections, "count", int),
                _take(reflections, "est_tokens", int),
                _take(reflections, "importance", int),
            ),
        }
        return Debt(pools, _take(block, "threshold_importance", int))

    def checkout(self, tier: int, max_tokens: int | None) -> Batch | NothingFree:
        began = time.monotonic()
        limit = {} if max_tokens is None else {"max_tokens": max_tokens}
        answer, reply = self._call("POST", "consolidate/checkout", {"tier": tier, **limit}, leases=True)
        if answer.get("batch_id") is None:
            expiry = answer.get("next_expiry")
            return NothingFree(_take(answer, "leased", int), expiry if isinstance(expiry, str) else None)
        batch_id = _take(answer, "batch_id", str)
        covers = _take(answer, "covers", dict)
        lease_s = _lease_s(answer, reply)
        memories = [(_take(row, "date", str), _take(row, "text", str)) for row in _rows(answer, "memories")]
        source_ids = _take(answer, "source_ids", list)
        if not memories or not all(isinstance(source_id, str) for source_id in source_ids):
            raise _foreign()
        return Batch(
            batch_id,
            _take(answer, "est_tokens", int),
            (_take(covers, "from", str), _take(covers, "to", str)),
            _take(_take(answer, "reflection_contract", dict), "instructions", str),
            memories,
            HiddenIds.of(batch_id, source_ids),
            lease_s,
            began + lease_s,
        )

    def commit(self, batch_id: str, entries: Entries) -> Committed:
        rows = [{"text": text, "importance": importance} for text, importance in entries]
        answer, _ = self._call("POST", "consolidate/commit", {"batch_id": batch_id, "entries": rows})
        return Committed(
            len(_take(answer, "created", list)),
            _take(answer, "sources_consolidated", int),
            _take(answer, "already_committed", bool),
        )

    def release(self, batch_id: str, within_s: float = PATIENCE_S) -> str:
        """Give an open batch back. Returns its state; one that was released or had expired stays as it is."""
        answer, _ = self._call("POST", "consolidate/release", {"batch_id": batch_id}, within_s)
        return _take(answer, "state", str)

    def renew(self, batch_id: str, within_s: float) -> float:
        """The seconds that the lease lasts from now on."""
        answer, reply = self._call("POST", "consolidate/renew", {"batch_id": batch_id}, within_s)
        return _lease_s(answer, reply)

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        within_s: float = PATIENCE_S,
        leases: bool = False,
    ) -> tuple[dict[str, object], wire.Reply]:
        """The answer, a JSON object. What `leases` is tried once more at most when it may have been carried out."""
        until = self._patience.clock() + within_s
        lost = 0

        def once(left_s: float) -> wire.Reply:
            nonlocal lost
            try:
                return self._once(method, path, body, left_s)
            except _Unknown as unknown:
                lost += 1
                if leases and lost > MOST_LOST:
                    raise self._silent(unknown, "; what it may have leased is free again later") from unknown
                raise

        try:
            reply = self._patience.insist(once, until)
        except Again as again:
            raise self._silent(again) from again
        try:
            answer = reply.json()
        except ValueError:
            answer = None
        if 200 <= reply.status < 300 and isinstance(answer, dict):
            return answer, reply
        said = answer if isinstance(answer, dict) else {}
        if reply.status in KEY_STATUS:
            hint = "the key needs memories:read and memories:reflect; look at STRATA_KEY or --key-file"
            raise VaultError(f"the vault refuses the key: {_sentence(said) or reply.shown()} ({hint})")
        if not isinstance(said.get("code"), str):
            raise _foreign()
        raise Refused(reply.status, str(said["code"]), _sentence(said) or reply.shown())

    def _silent(self, again: Again, more: str = "") -> VaultError:
        asked = f", it asks to wait {again.asked_s:.0f} s" if again.asked_s else ""
        return VaultError(f"the vault at {self._url} does not answer: {again.reason}{asked}{more}")

    def _once(self, method: str, path: str, body: Mapping[str, object] | None, left_s: float) -> wire.Reply:
        try:
            reply = wire.send(
                method,
                f"{self._url}/v1/memory/{path}",
                {"X-Memory-Key": self._key},
                body,
                max(0.1, min(left_s, CALL_S)),
            )
        except wire.Lost as lost:
            raise (_Unknown if lost.sent else Again)(str(lost)) from lost
        if reply.passing:
            asked_s = asked_wait(reply.headers.get("Retry-After"))
            # A failure that names no time may be that of a gateway, behind which the vault goes on.
            failed = reply.status >= 500 and asked_s is None
            raise (_Unknown if failed else Again)(reply.shown(), asked_s)
        return reply


def _lease_s(answer: Mapping[str, object], reply: wire.Reply) -> float:
    """How long a lease that was just given lasts. The vault's clock counts where it differs from this machine's."""
    now = time.time()
    try:
        # It has whole seconds, so it is only good enough to see that a clock is wrong.
        there = parsedate_to_datetime(reply.headers.get("Date", "")).timestamp()
    except (TypeError, ValueError):
        there = now
    if abs(there - now) > CLOCK_TOLERANCE_S:
        now = there
    try:
        return parse_instant(_take(answer, "lease_expires_at", str)) / 1000 - now
    except ValueError:
        raise _foreign() from None


def _sentence(answer: Mapping[str, object]) -> str:
    said = " ".join(str(answer[name]) for name in ("error", "hint") if isinstance(answer.get(name), str))
    return "".join(letter for letter in said if letter.isprintable())[:MAX_SHOWN]


def _take(answer: Mapping[str, object], name: str, kind: type[Value]) -> Value:
    value = answer.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _foreign()
    return value


def _rows(answer: Mapping[str, object], name: str) -> Sequence[dict[str, object]]:
    rows = _take(answer, name, list)
    if not all(isinstance(row, dict) for row in rows):
        raise _foreign()
    return rows


def _foreign() -> VaultError:
    return VaultError("what answers is not a vault of this kind; look at --url")
