"""One HTTP request of JSON and its whole answer: to the vault and to a model's endpoint."""

from __future__ import annotations

import http.client
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import IO
from urllib.parse import urlsplit

MAX_ANSWER_BYTES = 16 * 1024 * 1024
PASSING_STATUS = (408, 425, 429)
# Not implemented, another protocol, no room: these stay.
LASTING_STATUS = (501, 505, 507)
NEVER_SENT = (ConnectionRefusedError, socket.gaierror)
AGENT = "strata-consolidate"
_WORD = re.compile(r"[\w.-]{1,64}", re.ASCII)


class Lost(Exception):
    """No whole answer came. Whether the request was carried out is not known, unless it was surely not `sent`."""

    def __init__(self, problem: str, sent: bool = True) -> None:
        super().__init__(problem)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Reply:
    """`headers` are found whatever their case."""

    status: int
    headers: Message
    content: bytes

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in PASSING_STATUS or (self.status >= 500 and self.status not in LASTING_STATUS)

    def json(self) -> object:
        """Raises `ValueError`."""
        try:
            return json.loads(self.content)
        except RecursionError:
            raise ValueError("nested too deeply") from None

    def shown(self) -> str:
        """Status and machine-readable code. Sentences are left out: they may quote what was sent."""
        try:
            answer = self.json()
        except ValueError:
            answer = None
        if isinstance(answer, Mapping) and isinstance(answer.get("error"), Mapping):
            answer = answer["error"]
        word = (answer.get("code") or answer.get("type")) if isinstance(answer, Mapping) else None
        known = f" ({word})" if isinstance(word, str) and _WORD.fullmatch(word) else ""
        return f"status {self.status}{known}"


class _Stay(urllib.request.HTTPRedirectHandler):
    """A key goes to the address that it was given for and to no other."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def send(
    method: str, url: str, headers: Mapping[str, str], body: Mapping[str, object] | None, timeout_s: float
) -> Reply:
    """The answer, whatever its status. `timeout_s` bounds each wait for the network, not their sum. Raises `Lost`."""
    content = None if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    head = {"Accept": "application/json", "User-Agent": AGENT, **headers}
    if content is not None:
        head["Content-Type"] = "application/json"
    request = urllib.request.Request(url, content, head, method=method)
    try:
        with _opener(url).open(request, timeout=timeout_s) as response:
            return _reply(response.status, response.headers, response)
    except urllib.error.HTTPError as refused:
        with refused:
            try:
                return _reply(refused.code, refused.headers, refused)
            except (OSError, http.client.HTTPException) as error:
                raise Lost(_kind(error)) from error
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise Lost(_kind(reason), not isinstance(reason, NEVER_SENT)) from error


def _opener(url: str) -> urllib.request.OpenerDirector:
    host = urlsplit(url).hostname or ""
    here = host in ("localhost", "::1") or host.startswith("127.")
    # No proxy can reach this machine's own loopback address.
    return urllib.request.build_opener(urllib.request.ProxyHandler({} if here else None), _Stay)


def _reply(status: int, headers: Message, source: IO[bytes]) -> Reply:
    content = source.read(MAX_ANSWER_BYTES + 1)
    if len(content) > MAX_ANSWER_BYTES:
        raise Lost(f"the answer is longer than {MAX_ANSWER_BYTES // 1024**2} MiB")
    return Reply(status, headers, content)


def _kind(reason: BaseException | str) -> str:
    """What happened, without the address."""
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return reason if isinstance(reason, str) else type(reason).__name__
