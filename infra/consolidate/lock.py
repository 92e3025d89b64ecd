"""One run at a time on a vault, and a pause after it: a small file in the user's state folder.

There is one for each address and key, so two addresses of one vault are two vaults here.

The file's own lock is held only while it is read and written; what it says is who works and since when. A holder counts
until its process is gone or has been silent for 20 minutes, as after a suspension of the machine; a holder that was
replaced learns it at its next sign of life. What makes no sense in the file counts as nothing.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from shared.domain import keys

STALE_S = 20 * 60
# A sign of life that lies further ahead was not given by this clock.
AHEAD_S = 60
HIGHEST_PID = 2**31 - 1
LONGEST_BYTES = 4096
BEAT_EVERY_S = 30


class Busy(Exception):
    """Another run works on the vault, or the pause after one is not over. The message says which."""


class Lock:
    """`path` is the file. Times in it are Unix seconds."""

    def __init__(self, folder: Path, url: str, key: str, clock: Callable[[], float] = time.time) -> None:
        presented = keys.parse(key)
        vault = hashlib.sha256(f"{url}\n{presented.key if presented else key}".encode()).hexdigest()[:16]
        self.path = folder / f"consolidate-{vault}.json"
        self._token = secrets.token_hex(8)
        self._clock = clock
        self._beaten = 0.0

    def take(self, cooldown_s: float) -> None:
        """Raises `Busy`, and `OSError` when the file cannot be kept or something else is in its place."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._record() as record:
            now = self._clock()
            holder = record["holder"]
            if holder is not None and _lives(holder, now):
                raise Busy(
                    f"locked: another run (process {holder['pid']}) works on this vault; if that is wrong, "
                    f"remove {self.path}"
                )
            completed = record["completed"]
            # A time that lies ahead was written before the clock was set back.
            if completed is not None and 0 <= now - completed < cooldown_s:
                minutes = -(-int(completed + cooldown_s - now) // 60)
                raise Busy(
                    f"cooling down: the last run was completed {int(now - completed) // 60} min ago; "
                    f"the next may begin in {minutes} min (--force begins now)"
                )
            record["holder"] = {"pid": os.getpid(), "host": os.uname().nodename, "token": self._token, "beat": now}
            self._beaten = now

    def beat(self) -> None:
        """A sign of life, written at most every 30 s. Raises `Busy` when another run has taken the lock over."""
        now = self._clock()
        if 0 <= now - self._beaten < BEAT_EVERY_S:
            return
        # A sign of life that cannot be written is none; that is no reason to give up.
        with suppress(OSError), self._record() as record:
            if not self._mine(record):
                raise Busy("locked: this run was silent for long, and another one has taken its place")
            record["holder"]["beat"] = now
            self._beaten = now

    def leave(self, completed: bool) -> None:
        """Give the lock back; the pause begins where the run was `completed`."""
        with suppress(OSError), self._record() as record:
            if self._mine(record):
                record["holder"] = None
                if completed:
                    record["completed"] = self._clock()

    def _mine(self, record: dict[str, Any]) -> bool:
        holder = record["holder"]
        return holder is not None and holder.get("token") == self._token

    @contextmanager
    def _record(self) -> Iterator[dict[str, Any]]:
        """`holder` and `completed` of the file, to be changed in place; an exception leaves it as it was."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK
        # A pipe in the file's place is waited for without this flag, and cannot have a buffer that reads and writes.
        with os.fdopen(os.open(self.path, flags, 0o600), "r+b", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is no ordinary file")
            fcntl.flock(file, fcntl.LOCK_EX)
            before = file.read(LONGEST_BYTES + 1)
            record = _parsed(before)
            yield record
            after = json.dumps(record).encode("ascii")
            if after != before:
                file.seek(0)
                file.write(after)
                file.truncate()


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        said = json.loads(content) if len(content) <= LONGEST_BYTES else None
    except (ValueError, RecursionError):
        said = None
    known = said if isinstance(said, dict) else {}
    holder = known.get("holder")
    if isinstance(holder, dict):
        holder = {name: value for name, value in holder.items() if isinstance(value, str | int | float)}
    return {"holder": holder if isinstance(holder, dict) else None, "completed": _moment(known.get("completed"))}


def _moment(value: object) -> float | None:
    try:
        moment = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return moment if math.isfinite(moment) else None


def _lives(holder: dict[str, Any], now: float) -> bool:
    pid, beat = holder.get("pid"), _moment(holder.get("beat"))
    if type(pid) is not int or not 1 <= pid <= HIGHEST_PID or beat is None or not -AHEAD_S <= now - beat < STALE_S:
        return False
    if holder.get("host") != os.uname().nodename:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
