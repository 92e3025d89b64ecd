"""Search and prepare: what is shown, how much of it, and what happens to rows that are gone."""

from typing import Any

import pytest

from shared.domain.errors import Conflict, InvalidRequest, Unavailable
from shared.usecases.indexing import catch_up
from shared.usecases.prepare import prepare, query_from
from shared.usecases.search import search
from tests.unit.usecases.fakes import NOW, SmallModel
from tests.unit.usecases.world import World


def find(world: World, query: str, limit: int = 10, **wanted: Any) -> Any:
    caller = world.caller(wanted.pop("key", "mk_one"), wanted.pop("session", None), wanted.pop("model", None))
    return search(world.services, caller, query, limit, wanted.get("tiers"), wanted.get("importance"))


def test_rows_are_found_as_soon_as_they_are_stored(world: World) -> None:
    (memory_id,) = world.tell("the red fox", session="s1", date_ms=NOW)
    answer = find(world, "red bird")
    assert answer["memories"] == [
        {
            "id": memory_id,
            "tier": 1,
            "content": "the red fox",
            "role": "user",
            "date": "2026-02-02T02:40:00.000Z",
            "score": 0.5,
            "session_id": "s1",
        }
    ]
    assert answer["reflection"]["unconsolidated"]["raw"]["units"] == 1
    assert "truncated" not in answer
    assert world.meter.tokens("search") == [3]


def test_reflections_show_importance_and_coverage(world: World) -> None:
    world.tell("red", date_ms=0)
    _, (reflection,) = world.consolidate(("about red things", 8))
    (row,) = find(world, "red", tiers=[2])["memories"]
    assert row["id"] == reflection
    assert (row["tier"], row["importance"], row["role"], row["date"]) == (2, 8, "assistant", "1970-01-01T00:00:00.000Z")
    assert row["covers"] == {"from": "1970-01-01T00:00:00.000Z", "to": "1970-01-01T00:00:00.000Z"}
    assert [each["tier"] for each in find(world, "red", importance=8)["memories"]] == [2]
    assert find(world, "red", importance=9)["memories"] == []


def test_a_session_sees_itself_and_what_belongs_to_none(world: World) -> None:
    (mine,) = world.tell("red one", session="s1")
    (other,) = world.tell("red two", session="s2")
    (shared,) = world.tell("red three")
    assert {row["id"] for row in find(world, "red", session="s1")["memories"]} == {mine, shared}
    assert {row["id"] for row in find(world, "red")["memories"]} == {mine, other, shared}
    assert find(world, "red", key="mk_two")["memories"] == []


def test_ghosts_are_replaced_until_the_limit_is_reached(world: World) -> None:
    ids = world.tell(*(f"red number {number}" for number in range(30)))
    vault = world.caller().vault
    catch_up(world.services, vault)
    ghosts = ids[:20]
    world.store.delete(vault, ghosts, NOW)
    # The index has not heard of it, and nobody tells it.
    world.feed.acknowledge(vault, world.feed.pending(vault, 100))
    assert [row["id"] for row in find(world, "red", 5)["memories"]] == ids[20:25]
    assert [row["id"] for row in find(world, "red", 50)["memories"]] == ids[20:]
    assert world.index.asked[:2] == [5, 20]


def test_scores_never_rise_when_the_index_is_asked_twice(world: World) -> None:
    ids = world.tell("red ghost", "red", "blue")
    vault = world.caller().vault
    catch_up(world.services, vault)
    world.store.delete(vault, ids[:1], NOW)
    world.feed.acknowledge(vault, world.feed.pending(vault, 100))
    world.index.later_score = 7.5
    scores = [row["score"] for row in find(world, "red", 1)["memories"]]
    assert scores == [1.0]


def test_the_size_of_an_answer_is_kept(world: World) -> None:
    world.tell(*["🙂" * 75_000] * 25)
    answer = find(world, "red", 25)
    assert answer["truncated"] is True
    assert len(answer["memories"]) == 19
    assert world.meter.tokens("search") == [19 * 75_000]


def test_models_are_checked_before_anything_is_searched(world: World) -> None:
    world.tell("red")
    with pytest.raises(InvalidRequest, match="embeddings"):
        find(world, "red", model="huge")
    with pytest.raises(Conflict):
        find(world, "red", model="large")
    find(world, "red", model="small")


def test_the_vector_comes_from_the_vaults_model_when_that_can_answer(world: World) -> None:
    world.tell("red")
    find(world, "red")
    assert world.index.vectors[-1] is not None
    for model in (SmallModel("small", broken=True), SmallModel("small", loaded=False, loads=False)):
        world.models["small"] = model
        assert len(find(world, "red")["memories"]) == 1
        assert world.index.vectors[-1] is None
    world.models["small"] = SmallModel("small", loaded=False)
    find(world, "red")
    assert world.index.vectors[-1] is not None
    del world.models["small"]
    find(world, "red")
    assert world.index.vectors[-1] is None


def test_where_words_find_nothing_a_model_that_is_down_is_said_to_be(world: World) -> None:
    world.models["small"] = SmallModel("small", broken=True)
    assert find(world, "blue")["memories"] == []
    world.tell("red fox")
    with pytest.raises(Unavailable) as refused:
        find(world, "blue bird")
    assert refused.value.code == "embedding_unavailable"
    assert len(find(world, "red bird")["memories"]) == 1
    world.models["small"] = SmallModel("small", loaded=False, loads=False)
    assert len(find(world, "blue bird")["memories"]) == 1


def prepared(world: World, *texts: str, **wanted: Any) -> Any:
    messages = [("user", text) for text in texts]
    return prepare(
        world.services,
        world.caller(),
        messages,
        wanted.get("density", "default"),
        wanted.get("context_limit"),
        wanted.get("context_tokens"),
        wanted.get("tiers"),
        None,
    )


def test_prepared_context_goes_from_meaning_to_moments(world: World) -> None:
    world.tell("red fox seen", date_ms=0)
    world.consolidate(("A red fox lives here.", 8))
    world.consolidate(("Nature and red matter.", 9), tier=2)
    world.tell("red again", date_ms=86_400_000 * 2)
    world.tell("blue whale", date_ms=86_400_000 * 3)
    answer = prepared(world, "red")
    assert answer["context"] == (
        "What it means:\n[Thu 1 Jan 1970] Nature and red matter.\n\n"
        "What happened:\n[Thu 1 Jan 1970] A red fox lives here.\n\n"
        "Exact moments (UTC):\n[Thu 1 Jan 1970, 00:00] user: red fox seen\n[Sat 3 Jan 1970, 00:00] user: red again"
    )
    assert answer["memories_found"] == 4
    assert answer["tokens"] == -(-len(answer["context"].encode()) // 4)
    assert set(answer) == {"context", "memories_found", "tokens", "reflection"}
    assert world.meter.tokens("prepare") == [3 + 6 + 6 + 3]
    assert prepared(world, "red", tiers=[3])["memories_found"] == 1


def test_nothing_relevant_gives_an_empty_context(world: World) -> None:
    world.tell("blue")
    for answer in (
        prepared(world, "red"),
        prepared(world, " "),
        prepared(world),
        prepared(world, "blue", context_limit=0),
    ):
        assert (answer["context"], answer["memories_found"], answer["tokens"]) == ("", 0, 0)


@pytest.mark.parametrize(("density", "rows"), [("low", 10), ("default", 30), ("high", 60), ("xhigh", 120)])
def test_density_is_a_number_of_rows(world: World, density: str, rows: int) -> None:
    world.tell(*(f"red {number}" for number in range(130)))
    assert prepared(world, "red", density=density)["memories_found"] == rows
    assert prepared(world, "red", density=density, context_limit=7)["memories_found"] == 7


def test_a_context_keeps_its_budget(world: World) -> None:
    """200 tokens a row and 2,000 at least, unless the request names another."""
    world.tell(*(f"red {number} " + "🙂" * 5_000 for number in range(30)))
    answer = prepared(world, "red")
    assert (answer["memories_found"], answer["truncated"]) == (30, True)
    assert 5_900 < answer["tokens"] <= 6_000
    assert 5_000 < world.meter.tokens("prepare")[0] < answer["tokens"]
    assert 1_900 < prepared(world, "red", context_limit=2)["tokens"] <= 2_000
    small = prepared(world, "red", context_tokens=450)
    assert (small["memories_found"], small["truncated"]) == (2, True)
    assert 400 < small["tokens"] <= 450
    assert "truncated" not in prepared(world, "red", context_limit=2, context_tokens=11_000)


def test_a_source_that_its_reflection_says_is_shown_as_the_moment_it_was_said(world: World) -> None:
    world.tell("a red fox lives in the den", date_ms=0)
    world.tell("blue", date_ms=86_400_000 * 2)
    world.consolidate(("The red fox lives in a den near the river.", 8))
    answer = prepared(world, "red")
    assert answer["context"] == (
        "What happened:\n[1–3 Jan 1970, said Thu 1 Jan 1970, 00:00] The red fox lives in a den near the river."
    )
    assert answer["memories_found"] == 1
    assert "truncated" not in answer
    assert world.meter.tokens("prepare") == [11]


def test_rows_that_repeat_each_other_make_room_for_others(world: World) -> None:
    """Once half of the rows are repeats, the index is asked for more: one question, and one reading of rows."""
    world.tell(*(f"red fish {number}" for number in range(3)), date_ms=0)
    world.tell(*["Red"] * 9, date_ms=60_000)
    assert prepared(world, "red", context_limit=10)["context"].splitlines() == [
        "Exact moments (UTC):",
        "[Thu 1 Jan 1970, 00:00] user: red fish 0",
        "[Thu 1 Jan 1970, 00:00] user: red fish 1",
        "[Thu 1 Jan 1970, 00:00] user: red fish 2",
        "[Thu 1 Jan 1970, 00:01] user: Red",
    ]
    assert world.index.asked == [10, 40]
    assert prepared(world, "red", context_limit=2)["memories_found"] == 1
    assert prepared(world, "red", context_limit=3)["memories_found"] == 3
    assert prepared(world, "red", context_limit=1)["memories_found"] == 1
    assert world.index.asked[2:] == [2, 8, 3, 12, 1]


def test_the_query_is_the_end_of_the_conversation() -> None:
    filler = "x" * 400
    assert query_from([("user", "first"), ("assistant", "then"), ("user", "last")]) == "first\nthen\nlast"
    assert query_from([("system", "be kind"), ("user", "last"), ("developer", "no"), ("user", "  ")]) == "last"
    assert query_from([("user", "out"), ("user", filler), ("user", filler)]) == f"{filler}\n{filler}"
    assert query_from([("user", "out"), ("user", "y" * 4_000)]) == "y" * 4_000
    assert query_from([("system", "only")]) == ""
