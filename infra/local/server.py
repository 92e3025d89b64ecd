"""The local server: ``python -m infra.local.server``. Settings come from ``STRATA_…`` variables."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Generator, Iterable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

import uvicorn

from infra.local.gateway import Gateway, Response
from infra.local.worker import Worker
from shared import bootstrap
from shared.api.http import error_wire
from shared.api.strict_json import MAX_RAW_BYTES, too_large_raw
from shared.domain.errors import StrataError, Unavailable
from shared.domain.memory import VaultRef
from shared.settings import EMBEDDED, Settings, SettingsError, load

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

THREADS = 16
# 64 open vaults with up to 4 connections of 3 files each, and sockets.
DESCRIPTORS = 4096
GRACE_S = 30
KEEP_ALIVE_S = 75
# Of a request for a free thread. What then runs may take 15 s in a contended vault; together they stay below 20.
LONGEST_WAIT_S = 4
# How long a client may be silent inside a body once the server is to stop.
BODY_WAIT_S = 2
# A client that sends too much reads the answer only when it has sent it; so much is read and thrown away for it.
MAX_DISCARDED_BYTES = 64 * 1024 * 1024
CANNOT_START = 2


class Application:
    """The gateway as an ASGI application: handlers run in threads, bodies over the limit never reach them."""

    def __init__(self, gateway: Gateway, threads: ThreadPoolExecutor) -> None:
        self._gateway = gateway
        self._threads = threads
        self.stopping: Callable[[], bool] = lambda: False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = [(name.decode("latin-1"), _text(value)) for name, value in scope["headers"]]
        try:
            body = await _body(headers, receive, self.stopping)
        except _TooLarge:
            await _send(send, _refusal(too_large_raw()), close=True)
            return
        except _Abandoned:
            error = Unavailable("The server is stopping; the request had not come whole.", code="busy", retry_after=1)
            await _send(send, _refusal(error), close=True)
            return
        except _Disconnected:
            return
        path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        came = time.monotonic()

        def handle() -> Response:
            if time.monotonic() - came > LONGEST_WAIT_S:
                return _refusal(_crowded())
            return self._gateway.handle(scope["method"], path, query, headers, body)

        await _send(send, await asyncio.get_running_loop().run_in_executor(self._threads, handle))


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


class _TooLarge(Exception):
    """The body is over the limit; its rest was thrown away or will never be read."""


class _Disconnected(Exception):
    """The client left before its request was whole: half a request means nothing."""


class _Abandoned(Exception):
    """The server is to stop, and the rest of the body does not come."""


async def _message(receive: Receive, stopping: Callable[[], bool]) -> MutableMapping[str, Any]:
    """The next message. A client that sends nothing more does not keep the server from stopping."""
    while True:
        try:
            return await asyncio.wait_for(receive(), BODY_WAIT_S)
        except TimeoutError:
            if stopping():
                raise _Abandoned from None


async def _body(headers: list[tuple[str, str]], receive: Receive, stopping: Callable[[], bool]) -> bytes:
    """The body, never more than the limit in memory. Raises `_TooLarge`, `_Disconnected` or `_Abandoned`."""
    named = dict(headers)
    declared = named.get("content-length", "0")
    if declared.isdecimal() and int(declared) > MAX_RAW_BYTES and "expect" in named:
        raise _TooLarge
    parts: list[bytes] = []
    size = 0
    while True:
        message = await _message(receive, stopping)
        if message["type"] != "http.request":
            raise _Disconnected
        size += len(message.get("body", b""))
        if size <= MAX_RAW_BYTES:
            parts.append(message.get("body", b""))
        else:
            parts.clear()
        if size > MAX_DISCARDED_BYTES or not message.get("more_body", False):
            if size > MAX_RAW_BYTES:
                raise _TooLarge
            return b"".join(parts)


def _crowded() -> StrataError:
    return Unavailable(
        "Too many requests are waiting already.", code="busy", hint="Send the request again.", retry_after=2
    )


def _refusal(error: StrataError) -> Response:
    reply = error_wire(error, str(uuid.uuid4()))
    headers = tuple((name, value) for name, value in reply["headers"].items())
    return Response(reply["statusCode"], headers, reply["body"].encode("utf-8"))


async def _send(send: Send, response: Response, close: bool = False) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    if response.status != 204:
        headers.append((b"content-length", str(len(response.body)).encode("ascii")))
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


class Server(uvicorn.Server):
    """Says when it listens, and ends with status 0 when it was asked to stop."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _allow_descriptors() -> None:
    """Ask for room for the vaults that stay open and for many clients; some systems begin with 256 descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _listen(settings: Settings) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
    listener = socket.create_server(address[:2], family=family, backlog=1024)
    # Accepted sockets inherit it. Without it a kept-alive client waits 40 ms for the second segment of each answer.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class Served(bootstrap.Backend, Protocol):
    """A back end that a process of its own serves."""

    def unfinished(self) -> Iterable[VaultRef]:
        """Contents that may have changes or passages waiting from before the start."""
        ...


def serve(
    backend: Served,
    settings: Settings,
    about: str,
    others: Callable[[], Sequence[Any]] | None = None,
    upkeep: Callable[[], bool] | None = None,
) -> None:
    """Answer requests until SIGINT or SIGTERM; the line that says so ends with `about`.

    `others` are records of the change stream besides those of rows, `upkeep` takes a step of what the back end's files
    need when nobody waits. Raises `OSError` when it cannot listen.
    """
    with _listen(settings) as listener:
        bootstrap.activate(backend)
        worker = Worker(backend.services, others=others, upkeep=upkeep)
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="strata")
        application = Application(Gateway(backend.services, worker), threads)
        config = uvicorn.Config(
            application,
            http="h11",
            ws="none",
            lifespan="off",
            loop="asyncio",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        port = listener.getsockname()[1]

        def ready() -> None:
            print(f"strata is ready on http://{host}:{port} ({about})", flush=True)
            worker.start(backend.unfinished)

        try:
            server = Server(config, ready)
            application.stopping = lambda: server.should_exit
            server.run(sockets=[listener])
        finally:
            threads.shutdown()
            worker.stop()
            bootstrap.activate(None)


def run(start: Callable[[Settings], None], settings_of: Callable[[], Settings] = load) -> int:
    """Read the settings, `start` with them, and say in one line why that is not possible; the process's exit code."""
    try:
        settings = settings_of()
        logging.basicConfig(
            level=settings.log_level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        logging.getLogger("uvicorn").setLevel(max(logging.WARNING, logging.getLevelName(settings.log_level)))
        _allow_descriptors()
        start(settings)
    except SettingsError as error:
        print(f"strata cannot start: {error}", file=sys.stderr)
        return CANNOT_START
    except StrataError as error:
        print(f"strata cannot start: {error.message} {error.hint or ''}".rstrip(), file=sys.stderr)
        return CANNOT_START
    except OSError as error:
        print(f"strata cannot start: {error.strerror or error}", file=sys.stderr)
        return CANNOT_START
    return 0


def _embedded(settings: Settings) -> None:
    if settings.backend != EMBEDDED:
        raise SettingsError(
            f"STRATA_BACKEND={settings.backend!r} is not served here: `make serve-aws` runs it on this machine"
        )
    with bootstrap.Embedded(settings) as backend:
        serve(backend, settings, f"data: {settings.data}", upkeep=backend.upkeep.step)


def main() -> int:
    return run(_embedded)


if __name__ == "__main__":
    sys.exit(main())
