"""Requests over HTTP as a patient client sends them, each with what it took."""

from __future__ import annotations

import ipaddress
import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.connectionpool import connection_from_url
from urllib3.exceptions import HTTPError

REQUEST_SECONDS = 35.0
TRIES = 5
LONGEST_WAIT_SECONDS = 10.0
"""A longer wait is not made: the refusal counts as the answer."""
NO_ANSWER = "no answer"
SURELY_NOT_DONE = ("busy", "rate_limited")
"""Refusals after which nothing of a request has happened."""


class NotAllowed(Exception):
    """The address is somebody's on a network, and nobody said that it may be put under load."""


def check_address(url: str, owned: bool) -> None:
    """Raises `NotAllowed` for an address that is not this machine's own, unless it is `owned` by who runs this."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NotAllowed(f"{url!r} is no address such as http://127.0.0.1:8787")
    try:
        loopback = ipaddress.ip_address(parts.hostname).is_loopback
    except ValueError:
        loopback = parts.hostname == "localhost"
    if not loopback and not owned:
        raise NotAllowed(
            f"{parts.hostname} is not this machine. A load test costs its owner money and answers of others: add"
            " --i-own-this-address if both are yours to decide."
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """`status` is 0 and `code` is `NO_ANSWER` when there was none."""

    status: int
    code: str
    body: bytes = b""
    headers: Mapping[str, str] | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return (self.headers or {}).get(name)


@dataclass(frozen=True, slots=True)
class Sample:
    """One request until its last answer. Times are seconds of a clock that never goes back.

    `intended` is when it was to be sent by plan: in an open loop a late client does not hide the wait of its users.
    `refused` are the codes of tries that were answered by a wait.
    """

    operation: str
    intended: float
    sent: float
    ended: float
    status: int
    code: str
    refused: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Client:
    """Safe to use from several threads. It keeps every `Sample`."""

    def __init__(self, url: str, connections: int, until: float, draw: Callable[[], float] = random.random) -> None:
        """Nothing is tried again once the clock says `until`. `draw` spreads the waits."""
        self.url, self.until = url, until
        self._prefix = urlsplit(url).path.rstrip("/")
        timeout = urllib3.Timeout(connect=5, read=REQUEST_SECONDS)
        self._pool = connection_from_url(url, maxsize=connections, timeout=timeout, retries=False)
        self._draw = draw
        self._lock = threading.Lock()
        self.samples: list[Sample] = []

    def close(self) -> None:
        self._pool.close()

    def call(
        self,
        operation: str,
        method: str,
        path: str,
        key: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        intended: float | None = None,
        again: bool = True,
    ) -> Answer:
        """The last answer. `body` is JSON to be, or bytes as they are.

        ``Retry-After`` is honoured. Without `again` a request is repeated only when nothing of it can have happened.
        """
        sent = time.monotonic()
        refused: list[str] = []
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        named = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **(headers or {})}
        while True:
            answer = self._send(method, path, named, raw)
            wait = self._wait(answer, again)
            if wait is None or len(refused) + 1 >= TRIES or time.monotonic() + wait > self.until:
                break
            refused.append(answer.code)
            time.sleep(wait)
        start = sent if intended is None else intended
        ended = time.monotonic()
        with self._lock:
            self.samples.append(
                Sample(operation, start, sent, ended, answer.status, answer.code, tuple(refused)),
            )
        return answer

    def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        try:
            reply = self._pool.request(method, self._prefix + path, body=body, headers=headers, redirect=False)
        except (HTTPError, OSError):
            return Answer(0, NO_ANSWER)
        code = ""
        if reply.status >= 400:
            try:
                code = str(json.loads(reply.data)["code"])
            except (ValueError, LookupError, TypeError):
                code = "other"
        return Answer(reply.status, code, reply.data, {name.lower(): value for name, value in reply.headers.items()})

    def _wait(self, answer: Answer, again: bool) -> float | None:
        """Seconds until the next try; None when there is to be none."""
        if answer.status == 0:
            return self._draw() if again else None
        if answer.status not in (429, 503) or not (again or answer.code in SURELY_NOT_DONE):
            return None
        try:
            asked = float(answer.header("retry-after") or 1)
        except ValueError:
            asked = 1.0
        return None if asked > LONGEST_WAIT_SECONDS else asked * (1 + self._draw() / 2)
