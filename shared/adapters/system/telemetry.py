"""Telemetry of a single process: none. Its log says what went wrong."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from shared.ports.telemetry import Facts, Metric


class Silent:
    """`shared.ports.telemetry.Telemetry` that says nothing."""

    def record(self, metric: Metric, value: float = 1) -> None:
        return None

    def invocation(self, name: str, request_id: str, context: object) -> AbstractContextManager[Facts]:
        return nullcontext({})
