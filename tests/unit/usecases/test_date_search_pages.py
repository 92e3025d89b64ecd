"""Paging by time while the vault changes: a row that is there from the first page to the last is met exactly once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.usecases.deletion import delete_ids
from shared.usecases.ingest import NewMessage, ingest
from tests.unit.usecases.test_date_search import ask, iso, ms_of
from tests.unit.usecases.world import World

FIRST, LAST = 0, 6
ORDERS = st.sampled_from(["newest_first", "oldest_first"])
ROWS = st.lists(st.tuples(st.integers(FIRST, LAST), st.integers(1, 500)), min_size=1, max_size=25)
CHANGES = st.lists(st.tuples(st.booleans(), st.integers(FIRST, LAST), st.integers(0, 30)), max_size=8)


def tell(world: World, key: str, rows: list[tuple[int, int]]) -> list[str]:
    caller = world.caller(key)
    ids: list[str] = []
    for date, tokens in rows:
        answer: Any = ingest(world.services, caller, [NewMessage("user", "x" * 4 * tokens, date)], None)
        ids += answer["ids"]
    return ids


@given(rows=ROWS, changes=CHANGES, order=ORDERS, response=st.sampled_from([900, 5_000, 4_000_000]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_stays_is_met_once_whatever_comes_and_goes(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[tuple[int, int]],
    changes: list[tuple[bool, int, int]],
    order: str,
    response: int,
) -> None:
    """Many rows of an instant, responses too small for one instant, and a change after every page."""
    monkeypatch.setattr("shared.usecases.date_search.ROWS_BYTES", response)
    key = world.ids.key()
    there = tell(world, key, rows)
    came: list[str] = []
    went: set[str] = set()
    seen: Counter[str] = Counter()
    window = {"from": iso(FIRST), "to": iso(LAST + 1)}
    after_id = None
    left = list(changes)
    for turn in range(200):
        answer = ask(world, window["from"], window["to"], order=order, max_tokens=1_000, key=key, after_id=after_id)
        seen.update(row["id"] for row in answer["memories"])
        if not answer["truncated"]:
            break
        covered = answer["returned"]
        after_id = covered.get("after_id")
        if after_id is None:
            before = window.copy()
            window |= {"to": covered["from"]} if order == "newest_first" else {"from": covered["to"]}
            assert ms_of(window["to"]) - ms_of(window["from"]) < ms_of(before["to"]) - ms_of(before["from"])
        if left:
            comes, date, number = left.pop()
            if comes:
                came += tell(world, key, [(date, 1 + number)])
            else:
                name = (there + came)[number % len(there + came)]
                delete_ids(world.services, world.caller(key), [name])
                went.add(name)
        assert turn < 199
    stayed = [name for name in there if name not in went]
    assert {name: seen[name] for name in stayed} == dict.fromkeys(stayed, 1)
    assert all(count == 1 for count in seen.values())
    assert set(seen) <= {*there, *came}


@pytest.mark.parametrize("order", ["newest_first", "oldest_first"])
def test_with_a_query_equal_instants_have_one_order(world: World, order: str) -> None:
    ids = world.tell(*["red"] * 30, date_ms=5)
    world.tell(*["red"] * 30, date_ms=9)
    answers = [ask(world, iso(0), iso(9), query="red", order=order)["memories"] for _ in range(2)]
    assert answers[0] == answers[1]
    assert sorted(row["id"] for row in answers[0]) == sorted(ids)
