"""ministack, a LocalStack-compatible endpoint, as a process of its own on a loopback port.

Used as ``with ministack.start() as stack:`` or through the fixture of `tests.emulator.fixture`. Nothing of the
developer's own AWS settings, credentials or proxies reaches the process or the clients.
"""

from __future__ import annotations

import atexit
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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import botocore.session
from botocore.config import Config

REGION = "us-east-1"
ACCOUNT = "000000000000"
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
START_SECONDS = 60
WATCHED = Path(__file__).with_name("watched.py")
# The environment a server needs from outside: where programs are, and how text is encoded.
INHERITED = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")


@dataclass(frozen=True)
class Ministack:
    """A running endpoint. `folder` holds its temporary files and `log`; both go with it."""

    url: str
    pid: int
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "ministack.log"

    def client(self, service: str, attempts: int = 1, connections: int = 32, timeout_s: float = 30) -> Any:
        """A boto3 client of this endpoint; `attempts` counts the first request too, 1 means that none is repeated."""
        return session().client(
            service,
            endpoint_url=self.url,
            config=Config(
                proxies={},
                max_pool_connections=connections,
                connect_timeout=timeout_s,
                read_timeout=timeout_s,
                retries={"total_max_attempts": attempts, "mode": "standard"},
                s3={"addressing_style": "path"},
            ),
        )

    def environment(self) -> dict[str, str]:
        """What a program needs to speak to this endpoint, beside its own variables."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": CREDENTIALS["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": CREDENTIALS["aws_secret_access_key"],
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }


def session() -> boto3.Session:
    """A session that knows the dummy credentials and the region, and reads no shared configuration."""
    own: dict[str, Any] = {
        "profile": (None, None, None, None),
        "config_file": (None, None, os.devnull, None),
        "credentials_file": (None, None, os.devnull, None),
    }
    return boto3.Session(region_name=REGION, botocore_session=botocore.session.Session(session_vars=own), **CREDENTIALS)


@contextmanager
def start(settings: Mapping[str, str] | None = None, port: int = 0) -> Iterator[Ministack]:
    """Runs until the end of the block, then it and all its children are killed; it ends by itself when this process
    does not come to that. `settings` are its own variables.
    """
    folder = Path(tempfile.mkdtemp(prefix="ministack-"))
    process: subprocess.Popen[bytes] | None = None
    try:
        port = port or free_port()
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        environment |= {
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
        }
        with (folder / "ministack.log").open("ab") as log:
            process = subprocess.Popen(
                # Without the script's folder on its path, where a module has the package's name.
                [sys.executable, "-P", str(WATCHED)],
                cwd=folder,
                env=environment | dict(settings or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        stack = Ministack(f"http://127.0.0.1:{port}", process.pid, folder)
        _wait(process, stack)
        yield stack
    finally:
        if process is not None:
            end(process)
        shutil.rmtree(folder, ignore_errors=True)


@cache
def shared() -> Ministack:
    """The one of this process, started by who asks first; it ends with the process."""
    running = ExitStack()
    atexit.register(running.close)
    return running.enter_context(start())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills the process group that `process` leads."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait(process: subprocess.Popen[bytes], stack: Ministack) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"ministack did not start:\n{stack.log.read_text(errors='replace')}")
        try:
            # Whoever answers at a port that was taken meanwhile has not written into our folder.
            if any(stack.folder.glob("ministack-*.pid")):
                with opener.open(f"{stack.url}/_ministack/ready", timeout=5) as answer:
                    if answer.status == 200:
                        return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        time.sleep(0.05)
