"""The machine's clock and random source."""

from __future__ import annotations

import secrets
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
        with self._lock:
            return [self._next() for _ in range(count)]

    def _next(self) -> str:
        now = self._clock.now_ms()
        if now > self._last_ms:
            self._last_ms = now
            self._tail = secrets.randbits(self._RANDOM_BITS - 1)
        else:
            self._tail += 1 + secrets.randbits(32)
            if self._tail >> self._RANDOM_BITS:
                self._last_ms += 1
                self._tail = secrets.randbits(self._RANDOM_BITS - 1)
        high, low = self._tail >> 62, self._tail & ((1 << 62) - 1)
        value = (self._last_ms & ((1 << 48) - 1)) << 80 | 7 << 76 | high << 64 | 2 << 62 | low
        digits = f"{value:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def batch_id(self) -> str:
        return "cb_" + secrets.token_hex(16)

    def vault_id(self) -> str:
        return str(uuid.uuid4())

    def key(self) -> str:
        return "mk_" + secrets.token_urlsafe(24)
