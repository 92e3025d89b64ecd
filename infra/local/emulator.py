"""ministack, an emulator of AWS, as a process on a loopback port. It keeps everything in memory."""

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

START_SECONDS = 60.0


class EmulatorFailed(RuntimeError):
    """ministack did not start; the message ends with what it printed last."""


@contextmanager
def running() -> Iterator[str]:
    """The address of an empty emulator; it and all that it started are killed at the end. Raises `EmulatorFailed`."""
    folder = Path(tempfile.mkdtemp(prefix="ministack-"))
    try:
        port = _free_port()
        settings = {
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "STATE_DIR": str(folder / "state"),
            "PERSIST_STATE": "0",
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "LOG_LEVEL": "WARNING",
        }
        # `env` adds to the environment that is handed on unseen, and becomes the program.
        command = ["env", *(f"{name}={value}" for name, value in settings.items()), sys.executable, "-m", "ministack"]
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(process, address, folder / "output")
            yield address
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _wait(process: subprocess.Popen[bytes], address: str, output: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(urllib.error.URLError, OSError), opener.open(f"{address}/_ministack/ready", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.05)
    said = "\n".join(output.read_text("utf-8", "replace").splitlines()[-20:])
    raise EmulatorFailed(f"ministack did not start:\n{said}")
