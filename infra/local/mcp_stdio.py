"""A bridge for MCP clients that only start programs: lines on standard input, ``POST /mcp`` behind them.

``STRATA_KEY=mk_… python -m infra.local.mcp_stdio --url http://127.0.0.1:8787``

Every line is a JSON-RPC message and is posted as it came; the answer goes to standard output as the server gave it.
What the transport adds is made here: the headers that mirror a message, and an error with the request's id where the
server cannot be reached or answers with something else than JSON-RPC. A line that is no message, or longer than the
server takes, has its error here and is not sent. Diagnostics go to standard error.

Source: the specification's pages *stdio* and *Streamable HTTP*, 2026-07-28.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import urlsplit

import urllib3

from shared.api.mcp.protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    VERSION_KEY,
    Id,
    Object,
    header_value,
    is_plain,
    name_in,
)
from shared.api.strict_json import MAX_RAW_BYTES
from shared.settings import VAULT_KEY, SettingsError, client_key

PATH = "/mcp"
REQUESTS_AT_ONCE = 8
TIMEOUT = urllib3.Timeout(connect=10, read=120)
EVENT_STREAM = "text/event-stream"
SHOWN_CHARACTERS = 500
CANNOT_START = 2
SIGNALS = (signal.SIGTERM, signal.SIGINT)
BLOCK_BYTES = 65_536
LONGEST_LINE = MAX_RAW_BYTES + BLOCK_BYTES
"""In bytes: a little more than the server takes, whose refusal says more and is given the request's id."""

# A tool is called again only when its request cannot have left: whether a lost one was carried out is not known here.
_UNSENT = urllib3.Retry(1, connect=1, read=False, redirect=False, status=0, other=0, respect_retry_after_header=False)
_ANY = _UNSENT.new(read=1, allowed_methods=None)
_NO_JSON = object()
_ADVICE = {
    401: f"Give a memory key of this server in {VAULT_KEY} or with --key-file.",
    403: "Use a key whose scopes and suffix allow it.",
    404: "Is this the address of a strata server?",
}


class Bridge:
    """Carries messages to `url` with `key`, and answers to the file descriptor `out`."""

    def __init__(self, url: str, key: str, out: int) -> None:
        self._url, self._out, self._writing = url, out, threading.Lock()
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=REQUESTS_AT_ONCE, timeout=TIMEOUT)
        accept = {"Accept": f"application/json, {EVENT_STREAM}", "Content-Type": "application/json"}
        self._headers = {**accept, "Authorization": f"Bearer {key}"}
        self._negotiated: str | None = None
        self._open: set[Id] = set()

    def take(self, line: bytes, threads: ThreadPoolExecutor) -> None:
        """See to a line, in the order of lines; `threads` wait for the server. A blank line is nothing."""
        if not line.strip():
            return
        if len(line) > LONGEST_LINE:
            self._refuse(INVALID_REQUEST, f"The line is longer than the {MAX_RAW_BYTES:,} bytes that the server takes.")
            return
        value = _parsed(line, _NO_JSON)
        if value is _NO_JSON:
            self._refuse(PARSE_ERROR, "The line is no JSON.")
            return
        values = value if isinstance(value, list) else [value]
        messages = [_object(each) for each in values]
        if len(messages) == 1 and messages[0].get("method") == "notifications/cancelled":
            # Here the transport's own affair: no revision that is stateless has another use for it.
            self._open -= set(_ids(_object(messages[0].get("params")).get("requestId")))
            return
        ids = [id_ for each in messages if "method" in each for id_ in _ids(each.get("id"))]
        if not ids and not (messages and all(map(_needs_no_answer, messages))):
            self._refuse(INVALID_REQUEST, "A line is a JSON-RPC message; a request's id is a string or an integer.")
            return
        self._open.update(ids)
        threads.submit(self._carry, line, messages, ids)

    def _carry(self, line: bytes, messages: Sequence[Object], ids: Sequence[Id]) -> None:
        methods = {str(each.get("method")) for each in messages}
        if ids and self._open.isdisjoint(ids):
            # Cancelled while it waited for a thread.
            return
        try:
            found = self._pool.request(
                "POST",
                self._url,
                body=line,
                headers={**self._headers, **self._mirrored(messages)},
                retries=_UNSENT if "tools/call" in methods else _ANY,
            )
            answer = _parsed(found.data)
            if not _is_rpc(answer):
                if ids or found.status >= 300:
                    self._fail(ids, _unexpected(self._url, found), {"status": found.status})
                return
            if "initialize" in methods:
                self._negotiated = str(_object(_object(answer).get("result")).get("protocolVersion") or "") or None
            if isinstance(answer, dict) and answer.get("id") is None and "error" in answer:
                # The server could not tell which request it refuses.
                self._settle(ids, *(json.dumps({**answer, "id": each}).encode() for each in ids))
            else:
                self._settle(ids, found.data)
        except urllib3.exceptions.HTTPError as error:
            self._fail(ids, _unreachable(self._url, error))
        except Exception as error:
            self._fail(ids, f"The bridge failed: {error!r}")

    def _mirrored(self, messages: Sequence[Object]) -> dict[str, str]:
        """Headers that say again what the body says, in the revision that the message or the handshake speaks."""
        message = messages[0] if len(messages) == 1 else {}
        params, method = _object(message.get("params")), str(message.get("method"))
        version = _object(params.get("_meta")).get(VERSION_KEY)
        if version is None:
            known = None if method == "initialize" else self._negotiated
            return {} if known is None else {"MCP-Protocol-Version": known}
        said = {"MCP-Protocol-Version": str(version), "Mcp-Method": method}
        name = name_in(method, params)
        named = {} if name is None else {"Mcp-Name": header_value(name)}
        return {header: text for header, text in {**said, **named}.items() if is_plain(text)}

    def _refuse(self, code: int, why: str) -> None:
        _say(why)
        self._write(_failure(None, code, why))

    def _fail(self, ids: Sequence[Id], why: str, data: Object | None = None) -> None:
        _say(why)
        self._settle(ids, *(_failure(each, INTERNAL_ERROR, why, data) for each in ids))

    def _settle(self, ids: Sequence[Id], *lines: bytes) -> None:
        """Answer requests, unless they were cancelled meanwhile. A notification has no answer."""
        awaited = self._open.intersection(ids)
        self._open.difference_update(ids)
        for line in lines if awaited else ():
            self._write(line)

    def _write(self, line: bytes) -> None:
        # A line break in JSON is never part of a string: a space means the same.
        rest = memoryview(line.strip().replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
        with self._writing, suppress(BrokenPipeError):
            while rest:
                rest = rest[os.write(self._out, rest) :]


def _parsed(text: bytes, otherwise: object = None) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise


def _object(value: object) -> Object:
    return value if isinstance(value, dict) else {}


def _ids(value: object) -> list[Id]:
    """What may be an id, and is a key of its own among all ids: true would be found as 1."""
    return [value] if isinstance(value, str | int) and not isinstance(value, bool) else []


def _needs_no_answer(message: Object) -> bool:
    """Whether it is a notification, or an answer itself."""
    if isinstance(message.get("method"), str):
        return "id" not in message
    return "result" in message or "error" in message


def _is_rpc(value: object) -> bool:
    return bool(value) and all("jsonrpc" in _object(each) for each in (value if isinstance(value, list) else [value]))


def _failure(id_: Id, code: int, message: str, data: Object | None = None) -> bytes:
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return json.dumps({"jsonrpc": "2.0", "id": id_, "error": error}).encode()


def _unreachable(url: str, error: urllib3.exceptions.HTTPError) -> str:
    reason = error.reason if isinstance(error, urllib3.exceptions.MaxRetryError) else error
    if isinstance(reason, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError):
        return f"{url} cannot be reached, and nothing was sent. Is the server running there? ({reason})"
    return f"{url} gave no answer. Whether the request was carried out is not known. ({reason})"


def _unexpected(url: str, found: urllib3.BaseHTTPResponse) -> str:
    """What a person can do about an answer that is no JSON-RPC."""
    body, wait = _object(_parsed(found.data)), found.headers.get("Retry-After")
    said = [text for name in ("error", "hint") if isinstance(text := body.get(name), str)]
    advice = _ADVICE.get(found.status, "")
    if found.status == 429 or found.status >= 500:
        advice = f"Wait {wait} s and try again." if wait else "Wait and try again."
    elif 300 <= found.status < 400:
        advice = f"It leads to {found.headers.get('Location')}; give that address if you trust it."
    elif found.headers.get("Content-Type", "").startswith(EVENT_STREAM):
        advice = "It answers with a stream of events, which is not read here; give the address of a strata server."
    return " ".join([f"{url} answered {found.status}.", *said, advice]).strip()[:SHOWN_CHARACTERS]


def _say(text: str) -> None:
    print(f"strata: {text}", file=sys.stderr, flush=True)


def _lines(source: int) -> Iterator[bytes]:
    """Read without a buffer of Python's own: a thread that waits in one keeps the process from ending."""
    line = bytearray()
    while block := os.read(source, BLOCK_BYTES):
        *ends, rest = block.split(b"\n")
        for end in ends:
            yield bytes(line + end)
            line.clear()
        # Of a line that is too long no more is kept than shows it.
        line += rest[: LONGEST_LINE + 1 - len(line)]
    yield bytes(line)


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError("an address such as http://127.0.0.1:8787 is needed")
    return url.rstrip("/").removesuffix(PATH) + PATH


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.local.mcp_stdio", description=__doc__.partition("\n")[0])
    parser.add_argument("--url", type=_endpoint, default="http://127.0.0.1:8787", help="default: %(default)s")
    parser.add_argument("--key-file", type=Path, help=f"a file that holds the memory key, instead of {VAULT_KEY}")
    asked = parser.parse_args(arguments)
    try:
        key = client_key(VAULT_KEY, asked.key_file)
    except SettingsError as error:
        _say(str(error))
        return CANNOT_START
    if key is None:
        _say(f"there is no memory key: set {VAULT_KEY} or give --key-file")
        return CANNOT_START
    bridge, lines = Bridge(asked.url, key, sys.stdout.fileno()), SimpleQueue[bytes | None]()

    def read() -> None:
        try:
            for line in _lines(sys.stdin.fileno()):
                lines.put(line)
        finally:
            lines.put(None)

    def stop(*_: object) -> None:
        """End when what was asked is answered; a second signal ends at once."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        lines.put(None)

    for number in SIGNALS:
        signal.signal(number, stop)
    threading.Thread(target=read, daemon=True).start()
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
        while (line := lines.get()) is not None:
            bridge.take(line, threads)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
