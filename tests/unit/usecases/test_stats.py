"""What a vault holds, what a key used, and the first search after a start."""

from typing import Any

import pytest

from shared.domain.errors import InvalidRequest
from shared.domain.times import DAY_MS
from shared.usecases.stats import account_usage, stats, warmup
from tests.unit.usecases.fakes import NOW, SmallModel
from tests.unit.usecases.world import World


def test_an_empty_vault(world: World) -> None:
    answer: Any = stats(world.services, world.caller())
    assert (answer["memories"], answer["totalTokens"], answer["total_tokens"]) == (0, 0, 0)
    assert (answer["oldest"], answer["newest"], answer["oldestItem"], answer["newestItem"]) == (None,) * 4
    assert answer["tiers"] == {"1": 0, "2": 0, "3": 0}
    assert (answer["embedding_model"], answer["dims"]) == ("small", 3)


def test_a_full_one_under_both_spellings(world: World) -> None:
    world.tell("four", session="s1", date_ms=0)
    world.tell("eight...", session="s2", date_ms=DAY_MS)
    world.consolidate(("about it", 7))
    warmup(world.services, world.caller())
    answer: Any = stats(world.services, world.caller("mk_one"))
    assert answer == {
        "key": "mk_…",
        "storage": "strata",
        "totalVectors": 3,
        "hotVectors": 0,
        "waiting_vectors": 3,
        "index_lag_s": 2,
        "dims": 3,
        "embedding_model": "small",
        "oldestItem": 0,
        "newestItem": DAY_MS,
        "totalTokens": 5,
        "createdAt": NOW,
        "lastAccess": NOW,
        "memories": 3,
        "total_tokens": 5,
        "oldest": "1970-01-01T00:00:00.000Z",
        "newest": "1970-01-02T00:00:00.000Z",
        "sessions": 2,
        "tiers": {"1": 2, "2": 1, "3": 0},
        "pending": 0,
        "import_open": False,
        "reflection": world.store.debt(world.caller().vault).block(),
    }
    del world.models["small"]
    assert stats(world.services, world.caller())["dims"] is None


def test_warming_up_reads_the_words_and_the_model(world: World) -> None:
    world.tell("one", "two")
    world.models["small"] = SmallModel("small", loaded=False)
    answer: Any = warmup(world.services, world.caller())
    assert answer == {
        "status": "warm",
        "key": "mk_…",
        "vaults": [{"vault": "core", "vectors": 2, "timeMs": 0}],
        "totalVectors": 2,
        "warmupTimeMs": 0,
        "model_loaded": True,
        "memories_loaded": 2,
        "warmup_ms": 0,
    }
    world.models["small"] = SmallModel("small", loaded=False, loads=False)
    cold: Any = warmup(world.services, world.caller(session="s1"))
    assert cold["model_loaded"] is False
    assert cold["vaults"][0]["vault"] == "session"


def test_usage_is_summed_by_day_and_operation(world: World) -> None:
    key = world.caller().key.key_id
    for day, operation, tokens in [
        ("2026-02-01", "ingest", 10),
        ("2026-02-01", "search", 5),
        ("2026-02-01", "search", 6),
        ("2026-02-02", "prepare", 7),
        ("2026-02-02", "commit", 3),
        ("2026-02-02", "delete_ids", 100),
        ("2026-01-03", "ingest", 1_000),
    ]:
        world.meter.record(key, day, operation, tokens, 1)
    world.meter.record("somebody", "2026-02-01", "ingest", 9, 1)
    answer: Any = account_usage(world.services, world.caller(), None, None)
    assert answer["key"] == "mk_…"
    assert answer["period"] == {"start": "2026-01-04", "end": "2026-02-02"}
    first, second = answer["daily"]
    sums = {"outputTokens": 0, "avgLatencyMrMs": 0}
    assert first == {
        "date": "2026-02-01",
        "requestCount": 3,
        "inputTokens": 10,
        "memoryTokensRetrieved": 11,
        "memoryTokensInjected": 0,
        **sums,
        "operations": {"ingest": {"requests": 1, "tokens": 10}, "search": {"requests": 2, "tokens": 11}},
    }
    assert second["requestCount"] == 3
    assert (second["inputTokens"], second["memoryTokensRetrieved"], second["memoryTokensInjected"]) == (3, 7, 7)
    assert answer["summary"]["memoryKey"] == "mk_…"
    assert answer["summary"]["operations"]["delete_ids"] == {"requests": 1, "tokens": 100}
    assert (answer["total_requests"], answer["total_input_tokens"]) == (6, 13)
    assert (answer["total_memory_tokens"], answer["total_output_tokens"], answer["by_model"]) == (18, 0, {})


def test_usage_of_chosen_days(world: World) -> None:
    world.meter.record(world.caller().key.key_id, "2026-01-03", "ingest", 5, 1)
    answer: Any = account_usage(world.services, world.caller(), "2026-01-03", "2026-01-03")
    assert answer["total_input_tokens"] == 5
    assert answer["period"] == {"start": "2026-01-03", "end": "2026-01-03"}


@pytest.mark.parametrize(
    ("start", "end", "field"),
    [
        ("2026-01-04", "2026-01-03", "start"),
        ("2026-02-30", None, "start"),
        (None, "2026-01-03T00:00:00Z", "end"),
        ("", None, "start"),
        ("1990-01-01", "2026-01-01", "start"),
    ],
)
def test_bad_days(world: World, start: str | None, end: str | None, field: str) -> None:
    with pytest.raises(InvalidRequest, match=field):
        account_usage(world.services, world.caller(), start, end)


def test_the_earliest_days_have_a_period_before_them(world: World) -> None:
    answer: Any = account_usage(world.services, world.caller(), None, "0001-01-05")
    assert answer["daily"] == []
