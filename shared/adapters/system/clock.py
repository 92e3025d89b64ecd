"""The machine's clock and random source."""

from __future__ import annotations

import secrets
import struct
import threading
import time
import uuid


class SystemClock:
    """`time.time`, in milliseconds."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class RandomIds:
    """UUIDv7 by RFC 9562 section 6.2, method 3: the 74 random bits grow by a random step within one millisecond."""

    _RANDOM_BITS = 74

    def __init__(self, clock: SystemClock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._last_ms = 0
        self._tail = 0

    def memory_ids(self, count: int) -> list[str]:
        if not count:
            return []
        # One reading of the clock and one draw for all of them: a system call each costs more than the rest of an id.
        steps = struct.unpack(f"={count}I", secrets.token_bytes(4 * count))
        with self._lock:
            now = self._clock.now_ms()
            if now > self._last_ms:
                self._begin(now)
            return [self._next(step) for step in steps]

    def _begin(self, now_ms: int) -> None:
        self._last_ms = now_ms
        self._tail = secrets.randbits(self._RANDOM_BITS - 1)

    def _next(self, step: int) -> str:
        self._tail += 1 + step
        if self._tail >> self._RANDOM_BITS:
            self._begin(self._last_ms + 1)
        moment, tail = self._last_ms & ((1 << 48) - 1), self._tail
        high, middle, low = tail >> 62, tail >> 48 & 0x3FFF | 0x8000, tail & ((1 << 48) - 1)
        return f"{moment >> 16:08x}-{moment & 0xFFFF:04x}-7{high:03x}-{middle:04x}-{low:012x}"

    def batch_id(self) -> str:
        return "cb_" + secrets.token_hex(16)

    def vault_id(self) -> str:
        return str(uuid.uuid4())

    def key(self) -> str:
        return "mk_" + secrets.token_urlsafe(24)
