"""Search by time, through the store: every page, both orders, all the edges of a window."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.domain.batch import Entry
from shared.domain.errors import InvalidRequest
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget
from shared.ports.store import CheckedOut, Lease, TimelineQuery
from shared.usecases.consolidate import commit
from shared.usecases.date_search import date_search
from shared.usecases.deletion import delete_ids
from shared.usecases.ingest import NewMessage, ingest
from tests.unit.usecases.fakes import NOW
from tests.unit.usecases.world import World

DAY = 86_400_000


def ask(world: World, from_: str, to: str | None = None, **wanted: Any) -> Any:
    return date_search(
        world.services,
        world.caller(wanted.get("key", "mk_one"), wanted.get("session")),
        from_=from_,
        to=to,
        query=wanted.get("query"),
        tiers=wanted.get("tiers"),
        max_tokens=wanted.get("max_tokens"),
        order=wanted.get("order", "newest_first"),
        importance=wanted.get("importance"),
        after_id=wanted.get("after_id"),
    )


def shown(answer: Any) -> list[str]:
    return [row["content"] for row in answer["memories"]]


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ms_of(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_a_window_is_half_open_and_has_two_orders(world: World) -> None:
    for ms in (0, DAY - 1, DAY, 2 * DAY - 1, 2 * DAY):
        world.tell(f"at {ms}", date_ms=ms)
    answer = ask(world, "1970-01-01", "1970-01-02")
    assert shown(answer) == [f"at {2 * DAY - 1}", f"at {DAY}", f"at {DAY - 1}", "at 0"]
    assert answer["returned"] == {"from": "1970-01-01T00:00:00.000Z", "to": "1970-01-03T00:00:00.000Z"}
    assert answer["truncated"] is False
    assert answer["reflection"]["unconsolidated"]["raw"]["units"] == 5
    assert "score" not in answer["memories"][0]
    oldest = ask(world, "1970-01-01", "1970-01-02", order="oldest_first")
    assert shown(oldest) == shown(answer)[::-1]
    assert shown(ask(world, iso(DAY - 1), iso(DAY))) == [f"at {DAY - 1}"]
    assert world.meter.tokens("date_search")[:1] == [3 + 3 + 3 + 1]


def test_an_open_window_reaches_now_and_the_newest_row(world: World) -> None:
    world.tell("now")
    answer = ask(world, "2026-01-01")
    assert shown(answer) == ["now"]
    assert ms_of(answer["returned"]["to"]) > NOW
    world.tell("future", date_ms=NOW + DAY)
    answer = ask(world, "2026-01-01")
    assert shown(answer) == ["future", "now"]
    assert ms_of(answer["returned"]["to"]) > NOW + DAY


def test_an_empty_window_has_no_rows(world: World) -> None:
    world.tell("now")
    for answer in (
        ask(world, iso(NOW), iso(NOW)),
        ask(world, iso(NOW), iso(NOW), query="now"),
        ask(world, "2030-01-01"),
        ask(world, iso(NOW), iso(NOW), after_id="9b2f1c34-6a7e-4d21-8f0a-3b5c9d7e1a22"),
    ):
        assert (answer["memories"], answer["truncated"]) == ([], False)
        assert answer["returned"]["from"] == answer["returned"]["to"]
    with pytest.raises(InvalidRequest):
        ask(world, iso(NOW + 1), iso(NOW))


def test_reflections_match_by_their_coverage(world: World) -> None:
    world.tell("first", date_ms=DAY)
    world.tell("last", date_ms=3 * DAY)
    world.consolidate(("about them", 7))
    inside = ask(world, "1970-01-03", "1970-01-03")
    assert shown(inside) == ["about them"]
    assert inside["memories"][0]["date"] == "1970-01-04T00:00:00.000Z"
    assert shown(ask(world, "1970-01-02", "1970-01-02")) == ["about them", "first"]
    assert shown(ask(world, "1970-01-04", "1970-01-04", tiers=[2, 3])) == ["about them"]
    assert shown(ask(world, "1970-01-05", "1970-01-09")) == []
    assert shown(ask(world, "1970-01-01", "1970-01-09", importance=7)) == ["about them"]
    assert shown(ask(world, "1970-01-01", "1970-01-09", importance=8)) == []
    assert shown(ask(world, "1970-01-01", "1970-01-09", tiers=[1])) == ["last", "first"]


def test_sessions_and_other_vaults(world: World) -> None:
    world.tell("mine", session="s1", date_ms=0)
    world.tell("other", session="s2", date_ms=1)
    world.tell("foreign", key="mk_two", date_ms=2)
    assert shown(ask(world, "1970-01-01", "1970-01-01", session="s1")) == ["other", "mine"]
    assert len(shown(ask(world, "1970-01-01", "1970-01-01", session="s1", query="mine"))) == 2


def test_the_model_is_checked_here_too(world: World) -> None:
    caller = world.caller(model="huge")
    with pytest.raises(InvalidRequest, match="embeddings"):
        date_search(
            world.services,
            caller,
            from_="1970-01-01",
            to=None,
            query=None,
            tiers=None,
            max_tokens=None,
            order="newest_first",
            importance=None,
            after_id=None,
        )
    with pytest.raises(InvalidRequest, match="embeddings"):
        commit(world.services, caller, "cb_1", [("x", 5)])


def test_with_a_query_the_best_of_the_window_come_first(world: World) -> None:
    world.tell("red one", date_ms=0)
    world.tell("blue", date_ms=1)
    world.tell("red two", date_ms=2)
    world.tell("red outside", date_ms=DAY)
    answer = ask(world, "1970-01-01", "1970-01-01", query="red")
    assert shown(answer) == ["red two", "red one", "blue"]
    assert answer["returned"] == {"from": "1970-01-01T00:00:00.000Z", "to": "1970-01-02T00:00:00.000Z"}
    assert answer["truncated"] is False
    assert [row["score"] for row in answer["memories"]] == [1.0, 1.0, 0.0]
    world.tell("red " + "x" * 3_990, date_ms=3)
    cut = ask(world, "1970-01-01", "1970-01-01", query="red", max_tokens=1_000)
    assert [text[:4] for text in shown(cut)] == ["red "]
    assert cut["truncated"] is True


def test_a_large_window_is_asked_for_until_the_budget_is_full(world: World) -> None:
    world.tell(*["red"] * 300, date_ms=0)
    assert len(shown(ask(world, "1970-01-01", "1970-01-01", query="red"))) == 300


@pytest.mark.parametrize("after_id", ["x", "9b2f1c346a7e4d218f0a3b5c9d7e1a22"])
def test_what_is_no_id_continues_nothing(world: World, after_id: str) -> None:
    with pytest.raises(InvalidRequest, match="after_id"):
        ask(world, "1970-01-01", after_id=after_id)


def pages(world: World, from_: str, to: str, order: str, key: str = "mk_one") -> list[Any]:
    """Every page of a window with the smallest budget, fetched as the contract says."""
    answers: list[Any] = []
    after_id = None
    while True:
        answer = ask(world, from_, to, order=order, max_tokens=1_000, key=key, after_id=after_id)
        answers.append(answer)
        if not answer["truncated"]:
            return answers
        assert answer["memories"]
        assert len(answers) < 60
        after_id = answer["returned"].get("after_id")
        if after_id is not None:
            continue
        if order == "newest_first":
            assert ms_of(answer["returned"]["from"]) < ms_of(to)
            to = answer["returned"]["from"]
        else:
            assert ms_of(answer["returned"]["to"]) > ms_of(from_)
            from_ = answer["returned"]["to"]


SPANS = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 900)), min_size=1, max_size=14)


@given(
    raws=SPANS,
    batches=st.lists(st.integers(1, 700), max_size=3),
    order=st.sampled_from(["newest_first", "oldest_first"]),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_meet_every_row(world: World, raws: list[tuple[int, int]], batches: list[int], order: str) -> None:
    key = world.ids.key()
    caller = world.caller(key)
    for date, tokens in raws:
        ingest(world.services, caller, [NewMessage("user", "x" * 4 * tokens, date)], None)
    for tokens in batches:
        lease = Lease(world.ids.batch_id(), NOW, 900_000)
        batch = world.store.checkout(caller.vault, 1, Budget(max_rows=3), lease)
        if isinstance(batch, CheckedOut):
            entry = Entry(world.ids.memory_ids(1)[0], "y" * 4 * tokens, 5, tokens)
            world.store.commit(caller.vault, batch.batch.id, [entry], NOW)
    stored = world.store.export(caller.vault, None, 1_000)
    window = (2, 7)
    expected = {row.id for row in stored if overlaps(row, *window)}
    raw = sorted(row.id for row in stored if row.tier == 1 and window[0] <= row.date_ms < window[1])
    answers = pages(world, iso(window[0]), iso(window[1]), order, key)
    seen = [row["id"] for answer in answers for row in answer["memories"]]
    by_id = {row.id: row for row in stored}
    assert sorted(memory_id for memory_id in seen if by_id[memory_id].tier == 1) == raw
    assert set(seen) == expected
    # With the largest budget everything is on one page, and the two orders mirror each other.
    newest = ask(world, iso(window[0]), iso(window[1]), max_tokens=200_000, key=key)
    oldest = ask(world, iso(window[0]), iso(window[1]), max_tokens=200_000, key=key, order="oldest_first")
    assert {row["id"] for row in newest["memories"]} == expected
    assert newest["memories"] == oldest["memories"][::-1]


def overlaps(row: Memory, from_ms: int, to_ms: int) -> bool:
    start = row.covers.from_ms if row.covers else row.date_ms
    return start < to_ms and row.date_ms >= from_ms


def test_an_instant_stays_on_one_page(world: World) -> None:
    world.tell(*["x" * 2_000] * 5, date_ms=5)
    world.tell("later", date_ms=6)
    first, second = pages(world, iso(0), iso(10), "oldest_first")
    assert len(shown(first)) == 5
    assert first["returned"] == {"from": iso(5), "to": iso(6)}
    assert shown(second) == ["later"]
    assert second["returned"] == {"from": iso(6), "to": iso(10)}


@pytest.mark.parametrize("order", ["newest_first", "oldest_first"])
@pytest.mark.parametrize("lost", [False, True])
def test_an_instant_larger_than_a_response_goes_on_after_a_row(
    world: World, monkeypatch: pytest.MonkeyPatch, order: str, lost: bool
) -> None:
    monkeypatch.setattr("shared.usecases.date_search.ROWS_BYTES", 2_000)
    ids = world.tell(*["x"] * 20, date_ms=5)
    world.tell("before", date_ms=4)
    world.tell("after", date_ms=6)
    from_, to = (iso(0), iso(6)) if order == "newest_first" else (iso(5), iso(9))
    seen: list[str] = []
    answer = ask(world, from_, to, order=order)
    while (after_id := answer["returned"].get("after_id")) is not None:
        seen += [row["id"] for row in answer["memories"]]
        assert answer["truncated"] is True
        assert answer["returned"] == {"from": iso(5), "to": iso(6), "after_id": answer["memories"][-1]["id"]}
        if lost:
            delete_ids(world.services, world.caller(), [after_id])
        answer = ask(world, from_, to, order=order, after_id=after_id)
    seen += [row["id"] for row in answer["memories"]]
    own = [memory_id for memory_id in seen if memory_id in ids]
    assert own == (ids[::-1] if order == "newest_first" else ids)
    if order == "newest_first":
        assert answer["returned"] == {"from": iso(0), "to": iso(6)}
        assert shown(answer)[-1] == "before"
    else:
        assert shown(answer)[-1] == "after"


def test_spanning_reflections_leave_room_for_what_moves_on(world: World) -> None:
    for day in range(6):
        world.tell("z" * 1_600, date_ms=day * DAY)
    world.consolidate(("a" * 4_000, 5), ("b" * 1_200, 5), ("c" * 1_200, 5))
    answers = pages(world, iso(0), iso(4 * DAY), "newest_first")
    own = [row["date"] for answer in answers for row in answer["memories"] if row["tier"] == 1]
    assert own == [iso(day * DAY) for day in (3, 2, 1, 0)]
    assert all(answer["memories"] for answer in answers)
    assert {text[0] for answer in answers for text in shown(answer)} == set("abcz")


def test_a_reflection_larger_than_half_a_page_is_shown(world: World) -> None:
    world.tell("x", date_ms=0)
    world.tell("x", date_ms=9 * DAY)
    world.consolidate(("r" * 8_000, 5))
    answer = ask(world, iso(DAY), iso(2 * DAY), max_tokens=1_000)
    assert [text[:1] for text in shown(answer)] == ["r"]
    assert answer["truncated"] is False


@pytest.mark.parametrize("size", [20, 420, 4_000])
def test_a_page_reads_about_as_many_rows_as_it_takes(world: World, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for day in range(250):
        world.tell("x" * size, date_ms=day * DAY)
    read: list[int] = []
    timeline = world.store.timeline

    def counted(vault: VaultRef, query: TimelineQuery) -> tuple[Memory, ...]:
        found = timeline(vault, query)
        read.append(len(found))
        return found

    monkeypatch.setattr(world.store, "timeline", counted)
    answer = ask(world, "1970-01-01", max_tokens=2_000)
    taken = len(answer["memories"])
    assert taken == min(250, 2_000 // (size // 4))
    newest, *pages = read
    assert newest == 1
    # One row more tells that there is more; no fewer are read at once than what a page of usual rows may need.
    assert sum(pages) <= max(taken + 12, 40)
    assert len(pages) <= 3


def test_many_spanning_reflections_are_read_in_pieces(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.usecases.date_search.ROWS_AT_ONCE", 2)
    world.tell("x", date_ms=0)
    world.tell("x", date_ms=9 * DAY)
    world.consolidate(*[(f"r{number}", 5) for number in range(5)])
    assert shown(ask(world, iso(DAY), iso(2 * DAY), order="oldest_first")) == [f"r{number}" for number in range(5)]
    assert shown(ask(world, iso(DAY), iso(2 * DAY))) == [f"r{number}" for number in reversed(range(5))]


@pytest.mark.parametrize("order", ["newest_first", "oldest_first"])
def test_a_cut_instant_beside_spanning_reflections(world: World, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    monkeypatch.setattr("shared.usecases.date_search.ROWS_BYTES", 1_000)
    ids = world.tell(*["x"] * 20, date_ms=5)
    world.tell("end", date_ms=50)
    _, (reflection,) = world.consolidate(("spanning", 5))
    answers = pages(world, iso(0), iso(9), order)
    seen = [row["id"] for answer in answers for row in answer["memories"]]
    assert seen == ([reflection, *ids[::-1]] if order == "newest_first" else [*ids, reflection])
    assert len(answers) > 2


def test_spanning_reflections_of_the_last_instant_stand_between_its_rows(world: World) -> None:
    first = world.tell("one", date_ms=8)
    world.tell("end", date_ms=50)
    _, (reflection,) = world.consolidate(("spanning", 5))
    last = world.tell("two", date_ms=8)
    for order, expected in (
        ("newest_first", [*last, reflection, *first]),
        ("oldest_first", [*first, reflection, *last]),
    ):
        assert [row["id"] for row in ask(world, iso(0), iso(9), order=order)["memories"]] == expected


def test_many_spanning_reflections_get_pages_of_their_own(world: World) -> None:
    world.tell("before", date_ms=0)
    world.tell("inside", date_ms=5)
    world.tell("end", date_ms=50)
    _, reflections = world.consolidate(*[("s" * 1_200, 5)] * 5)
    for order in ("newest_first", "oldest_first"):
        answers = pages(world, iso(3), iso(9), order)
        rows = [row for answer in answers for row in answer["memories"]]
        assert sorted(row["id"] for row in rows if row["tier"] == 2) == reflections
        assert [row["content"] for row in rows if row["tier"] == 1] == ["inside"]
        for answer in answers:
            assert sum(len(row["content"]) // 4 for row in answer["memories"] if row["tier"] == 2) <= 500


def test_spanning_reflections_that_no_further_page_meets_come_before_it(world: World) -> None:
    """Five reflections go on past the window and begin late in it: the page that is full of them may not pass them."""
    first, *_ = world.tell("z" * 1_200, date_ms=0)
    old = [first, *(world.tell("z" * 1_200, date_ms=day * DAY)[0] for day in range(1, 5))]
    world.consolidate(("all of them", 1))
    late = [*world.tell("late", date_ms=6 * DAY), *world.tell("end", date_ms=50 * DAY)]
    _, reflections = world.consolidate(*[("s" * 1_200, 5)] * 5)
    answers = pages(world, iso(0), iso(10 * DAY), "newest_first")
    seen = [row["id"] for answer in answers for row in answer["memories"]]
    assert set(reflections) <= set(seen)
    assert [memory_id for memory_id in seen if memory_id in (*old, *late)] == [late[0], *reversed(old)]
    # Once each: all begin after the page that shows the older rows.
    assert sorted(memory_id for memory_id in seen if memory_id in reflections) == sorted(reflections)


def test_a_row_from_outside_the_window_continues_its_first_instant(world: World) -> None:
    first, second, third = world.tell("one", "two", "three", date_ms=5)
    (outside,) = world.tell("outside", date_ms=50)
    rows = ask(world, iso(0), iso(9), after_id=outside)["memories"]
    # Its id is larger than those of the instant, so that nothing of it is passed over newest first.
    assert [row["id"] for row in rows] == [third, second, first]
    assert ask(world, iso(0), iso(9), after_id=outside, order="oldest_first")["memories"] == []


def test_long_windows_are_read_in_pieces(world: World) -> None:
    ids = world.tell(*["x"] * 450, date_ms=5)
    assert [row["id"] for row in ask(world, iso(0), iso(9), order="oldest_first")["memories"]] == ids
