"""ministack, a LocalStack-compatible endpoint, as a process on a loopback port. It keeps everything in memory.

Nothing of the caller's own AWS settings, credentials or proxies reaches it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

REGION = "us-east-1"
START_SECONDS = 60.0

# Becomes the program, and leaves a watcher that kills its group when this process is gone, however it went. Of the
# environment it keeps where programs are and how text is encoded.
UNTIL_WE_END = (
    'exec 3<&0; { cat <&3 >/dev/null; kill -9 -$$; } & exec env -i PATH="$PATH" LANG="$LANG" "$@" </dev/null 3<&-'
)


class EmulatorFailed(RuntimeError):
    """ministack did not start; the message ends with what it printed last."""


@dataclass(frozen=True)
class Emulator:
    """A running one. `folder` holds its temporary files and `log`; both go with it."""

    url: str
    pid: int
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "ministack.log"


@contextmanager
def running(settings: Mapping[str, str] | None = None, port: int = 0) -> Iterator[Emulator]:
    """An empty emulator; it and all that it started are killed at the end. Raises `EmulatorFailed`.

    `settings` are its own variables.
    """
    folder = Path(tempfile.mkdtemp(prefix="ministack-"))
    process: subprocess.Popen[bytes] | None = None
    try:
        port = port or free_port()
        variables = {
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "STATE_DIR": str(folder / "state"),
            "PERSIST_STATE": "0",
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "LOG_LEVEL": "WARNING",
            "MINISTACK_REGION": REGION,
            "PYTHONUNBUFFERED": "1",
            **(settings or {}),
        }
        # Without the current folder on its path, where a module may have the package's name.
        program = [*(f"{name}={value}" for name, value in variables.items()), sys.executable, "-P", "-m", "ministack"]
        with (folder / "ministack.log").open("ab") as log:
            process = subprocess.Popen(
                ["sh", "-c", UNTIL_WE_END, "sh", *program],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        emulator = Emulator(f"http://127.0.0.1:{port}", process.pid, folder)
        _wait(process, emulator)
        yield emulator
    finally:
        if process is not None:
            end(process)
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Kill a leader of its own session, and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _wait(process: subprocess.Popen[bytes], emulator: Emulator) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        # Whoever answers at a port that was taken meanwhile has not written into our folder.
        if any(emulator.folder.glob("ministack-*.pid")):
            ready = f"{emulator.url}/_ministack/ready"
            with suppress(urllib.error.URLError, OSError), opener.open(ready, timeout=5) as answer:
                if answer.status == 200:
                    return
        time.sleep(0.05)
    said = "\n".join(emulator.log.read_text("utf-8", "replace").splitlines()[-20:])
    raise EmulatorFailed(f"ministack did not start:\n{said}")
