"""The real server as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"^strata is ready on (http://\S+)", re.MULTILINE)
START_SECONDS = 120
STOP_SECONDS = 30


class Server:
    """``python -m infra.local.server``, or another `program`, on a free port, from `start` or ``with`` on.

    `settings` are ``STRATA_…`` variables. It can be started again on the same folder after `stop` or `kill`; its output
    of all runs is in `log`.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, program: str = "infra.local.server"
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "data"
        self.log = folder / "server.log"
        self.url = ""
        self._program = program
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns when the server has said that it is ready."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
        environment |= {"STRATA_PORT": "0", "STRATA_DATA": str(self.data), "PYTHONUNBUFFERED": "1"} | self._settings
        said = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._program],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_SECONDS
        while (found := READY.search(self._output()[said:].decode())) is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the server did not start:\n{self._output().decode()}")
            time.sleep(0.02)
        self.url = found[1]

    def _output(self) -> bytes:
        return self.log.read_bytes()

    def stop(self) -> int:
        """Ask it to stop, as a service manager does; returns its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """End it at once, as a power cut would. Does nothing when it has ended."""
        return self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        process = self._process
        if process is None:
            return 0
        process.send_signal(how)
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        self._process = None
        return code

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code = self.stop()
        if kind is None:
            assert code == 0, f"the server ended with {code}:\n{self._output().decode()}"
