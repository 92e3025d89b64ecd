"""What a vault holds, what a key used, and getting ready for the first search.

Figures that existing clients read under two names are given under both.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain import metering
from shared.domain.errors import InvalidRequest
from shared.domain.times import DAY_MS, parse_date, to_text
from shared.ports.usage import UsageRow
from shared.usecases import metered
from shared.usecases.indexing import catch_up
from shared.usecases.models import chosen_model, load_within
from shared.usecases.services import Answer, Caller, Services

STORAGE_NAME = "strata"
DEFAULT_DAYS = 30
MAX_DAYS = 3_660
WARM_WAIT_S = 2.0


def stats(services: Services, caller: Caller) -> Answer:
    """Counts of the vault at this moment."""
    totals = services.store.totals(caller.vault)
    status = services.index.status(caller.vault)
    model = chosen_model(services, caller)
    embedder = services.embedders.get(model)
    memories = sum(totals.memories.values())
    return {
        "key": caller.masked,
        "storage": STORAGE_NAME,
        "totalVectors": status.passages,
        "hotVectors": status.passages - status.without_vector,
        "waiting_vectors": status.without_vector,
        "index_lag_s": -(-status.lag_ms // 1000),
        "dims": None if embedder is None else embedder.dimension,
        "embedding_model": model,
        "oldestItem": totals.oldest_ms,
        "newestItem": totals.newest_ms,
        "totalTokens": totals.tokens,
        "createdAt": caller.record.created_ms,
        "lastAccess": caller.key.last_used_ms,
        "memories": memories,
        "total_tokens": totals.tokens,
        "oldest": None if totals.oldest_ms is None else to_text(totals.oldest_ms),
        "newest": None if totals.newest_ms is None else to_text(totals.newest_ms),
        "sessions": totals.sessions,
        "tiers": {str(tier): totals.memories.get(tier, 0) for tier in (1, 2, 3)},
        "pending": totals.pending,
        "import_open": caller.record.importing is not None,
        "reflection": totals.debt.block(),
    }


def warmup(services: Services, caller: Caller) -> Answer:
    """Bring the vault's words and its model into memory, waiting at most 2 s for the model."""
    started_ms = services.clock.now_ms()
    catch_up(services, caller.vault)
    embedder = services.embedders.get(chosen_model(services, caller))
    loaded = embedder is not None and load_within(embedder, WARM_WAIT_S)
    vectors = services.index.status(caller.vault).passages
    memories = sum(services.store.totals(caller.vault).memories.values())
    # The clock may be set back meanwhile; a duration is never negative.
    elapsed_ms = max(0, services.clock.now_ms() - started_ms)
    vault = "core" if caller.session_id is None else "session"
    return {
        "status": "warm",
        "key": caller.masked,
        "vaults": [{"vault": vault, "vectors": vectors, "timeMs": elapsed_ms}],
        "totalVectors": vectors,
        "warmupTimeMs": elapsed_ms,
        "model_loaded": loaded,
        "memories_loaded": memories,
        "warmup_ms": elapsed_ms,
    }


def account_usage(services: Services, caller: Caller, start: str | None, end: str | None) -> Answer:
    """What the key used from day `start` to day `end` (``YYYY-MM-DD``, UTC, both included); by default 30 days.

    Raises `InvalidRequest` for days that are none, a reversed period, or one of more than ten years.
    """
    last_ms = _day("end", end, metered.today(services))
    first_ms = _day("start", start, to_text(last_ms - (DEFAULT_DAYS - 1) * DAY_MS)[:10])
    if first_ms > last_ms:
        raise InvalidRequest.field("start", "lies after `end`")
    if last_ms - first_ms > MAX_DAYS * DAY_MS:
        raise InvalidRequest.field("start", f"lies more than {MAX_DAYS} days before `end`")
    period = {"start": to_text(first_ms)[:10], "end": to_text(last_ms)[:10]}
    rows = services.usage.read(caller.key.key_id, period["start"], period["end"])
    by_day: dict[str, list[UsageRow]] = {}
    for row in rows:
        by_day.setdefault(row.day, []).append(row)
    sums = _sums(rows)
    return {
        "key": caller.masked,
        "period": period,
        "daily": [
            {"date": day, **_sums(day_rows), "operations": _operations(day_rows)} for day, day_rows in by_day.items()
        ],
        "summary": {"memoryKey": caller.masked, **sums, "operations": _operations(rows)},
        "total_requests": sums["requestCount"],
        "total_input_tokens": sums["inputTokens"],
        "total_output_tokens": sums["outputTokens"],
        "total_memory_tokens": sums["memoryTokensRetrieved"],
        "by_model": {},
    }


def _day(field: str, text: str | None, default: str) -> int:
    try:
        day = parse_date(default if text is None else text)
    except ValueError:
        day = None
    if day is None:
        raise InvalidRequest.field(field, "is not a day", "Write it like 2026-08-08.")
    return day


def _sums(rows: Sequence[UsageRow]) -> dict[str, int]:
    """Totals under the names of the contract. No model runs here, so nothing is output and nothing is timed."""
    return {
        "requestCount": sum(row.requests for row in rows),
        "inputTokens": sum(row.tokens for row in rows if row.operation in metering.STORAGE),
        "outputTokens": 0,
        "memoryTokensRetrieved": sum(row.tokens for row in rows if row.operation in metering.RETRIEVAL),
        "memoryTokensInjected": sum(row.tokens for row in rows if row.operation == metering.PREPARE),
        "avgLatencyMrMs": 0,
    }


def _operations(rows: Sequence[UsageRow]) -> dict[str, dict[str, int]]:
    operations: dict[str, dict[str, int]] = {}
    for row in rows:
        sums = operations.setdefault(row.operation, {"requests": 0, "tokens": 0})
        sums["requests"] += row.requests
        sums["tokens"] += row.tokens
    return operations
