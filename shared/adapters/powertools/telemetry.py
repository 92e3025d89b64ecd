"""Telemetry of a function: its log as JSON lines, and its metrics in lines that CloudWatch takes them out of."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import EphemeralMetrics

from shared.ports.telemetry import NAMESPACE, Facts, Metric

ROOT = "strata"
TALKATIVE = ("botocore", "urllib3", "opensearchpy", "opensearch")
"""Libraries that write whole requests into the log at DEBUG, and requests hold memories."""
_KEYS = ("function_name", "function_request_id", "request_id", "route")

log = logging.getLogger("strata.call")

Values = list[tuple[Metric, float]]


class Discreet(LambdaPowertoolsFormatter):
    """Says of an exception what it is and where it happened, not its own words: they may quote a memory or a key."""

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info:
            kind, _, trace = record.exc_info
            places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]
            record = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None})
            record.exception_name = getattr(kind, "__name__", "")
            record.places = " < ".join(reversed(places))
        return super().format(record)


class PowertoolsTelemetry:
    """`shared.ports.telemetry.Telemetry`. `service` is the environment's name.

    Everything that is logged below the name ``strata`` goes to the standard output in its format from then on.
    """

    def __init__(self, service: str, level: str) -> None:
        self._metrics = EphemeralMetrics(namespace=NAMESPACE, service=service)
        self._lock = threading.Lock()
        self._values: ContextVar[Values | None] = ContextVar("strata-telemetry", default=None)
        # Filtering by level on the platform's side needs this form of the time.
        formatter = Discreet(utc=True, use_rfc3339=True)
        self._logger = Logger(service=service, level=level, logger_formatter=formatter)
        root = logging.getLogger(ROOT)
        root.handlers = [self._logger.logger_handler]
        root.setLevel(level)
        # The platform's own handler would write every line once more.
        root.propagate = False
        for name in TALKATIVE:
            talker = logging.getLogger(name)
            talker.setLevel(max(talker.level, logging.INFO))

    def record(self, metric: Metric, value: float = 1) -> None:
        values = self._values.get()
        if values is None:
            self._flush([(metric, value)])
        else:
            values.append((metric, value))

    @contextmanager
    def invocation(self, name: str, request_id: str, context: object) -> Iterator[Facts]:
        values: Values = []
        facts: Facts = {}
        before = self._values.set(values)
        keys = _known(
            {
                "function_name": getattr(context, "function_name", ""),
                "function_request_id": getattr(context, "aws_request_id", ""),
                "request_id": request_id,
                "route": name,
            }
        )
        self._logger.thread_safe_append_keys(**keys)
        started = time.perf_counter()
        try:
            yield facts
        finally:
            took = round((time.perf_counter() - started) * 1000, 1)
            log.info("call", extra={**facts, "duration_ms": took})
            self._logger.thread_safe_remove_keys(_KEYS)
            self._values.reset(before)
            self._flush(values)

    def _flush(self, values: Values) -> None:
        if not values:
            return
        with self._lock:
            for metric, value in values:
                self._metrics.add_metric(metric.name, metric.unit, value)
            if self._metrics.metric_set:
                self._metrics.flush_metrics()


def _known(keys: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in keys.items() if value}
