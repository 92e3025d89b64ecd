"""The SearchIndex port, on every adapter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from shared.domain.memory import Covers, Memory, VaultRef
from shared.ports.search import Filters, Hit
from tests.contract.index_rigs import MODEL, OPENSEARCH, SQLITE, IndexRig, embed, find
from tests.contract.rows import NOW, Maker

WORDS = ("otter", "canoe", "lantern", "granite", "violin", "saffron", "harbour", "meadow", "copper", "thistle")


@pytest.fixture(params=[SQLITE, OPENSEARCH])
def rig(request: pytest.FixtureRequest) -> Iterator[IndexRig]:
    made = request.param(request)
    yield made
    made.close()


@pytest.fixture
def vault(rig: IndexRig) -> VaultRef:
    return rig.new_vault()


def assert_same(left: Sequence[Hit], right: Sequence[Hit]) -> None:
    """The same rows with the same scores; sums taken in another order may differ in their last bits."""
    scores = {hit.memory_id: hit.score for hit in left}
    assert scores == pytest.approx({hit.memory_id: hit.score for hit in right}, abs=1e-6)


def reflection(make: Maker, text: str, importance: int, covers: tuple[int, int], tier: int = 2) -> Memory:
    row = make.raw(text, covers[1])
    return replace(row, tier=tier, role="assistant", importance=importance, covers=Covers(*covers))


def test_a_row_is_found_by_its_words_before_it_has_a_vector(rig: IndexRig, vault: VaultRef, make: Maker) -> None:
    row, other = make.raw("the otter sleeps"), make.raw("a lantern burns")
    rig.write(vault, [row, other])
    hits = find(rig, vault, "where did the otters sleep")
    assert hits[0].memory_id == row.id
    assert hits[0].matched
    assert rig.index.status(vault).without_vector == 2
    assert embed(rig, vault) == 2
    assert rig.index.status(vault).without_vector == 0
    assert find(rig, vault, "otter")[0].memory_id == row.id


def test_every_row_comes_back_when_asked_for_enough(rig: IndexRig, vault: VaultRef, make: Maker) -> None:
    rows = [make.raw(f"{word} number {place}") for place, word in enumerate(WORDS)]
    rig.write(vault, rows)
    embed(rig, vault)
    hits = find(rig, vault, "violin", limit=500)
    assert {hit.memory_id for hit in hits} == {row.id for row in rows}
    assert [hit.matched for hit in hits] == sorted((hit.matched for hit in hits), reverse=True)


def test_an_empty_vault_and_unknown_words_find_nothing_relevant(rig: IndexRig, vault: VaultRef, make: Maker) -> None:
    assert find(rig, vault, "otter") == ()
    rig.write(vault, [make.raw("copper kettle")])
    assert not any(hit.matched for hit in find(rig, vault, "zebra", vectors=False))


def test_filters_apply_before_ranking(rig: IndexRig, vault: VaultRef, make: Maker) -> None:
    raw = [make.raw("otter raw", NOW + place, session=f"s{place % 2}") for place in range(6)]
    free = make.raw("otter without a session", NOW + 6)
    low = reflection(make, "otter low", 3, (NOW - 50, NOW - 40))
    high = reflection(make, "otter high", 9, (NOW - 50, NOW + 3), tier=3)
    rig.write(vault, [*raw, free, low, high])
    embed(rig, vault)

    def ids(filters: Filters) -> set[str]:
        return {hit.memory_id for hit in find(rig, vault, "otter", 50, filters)}

    assert ids(Filters(tiers=frozenset({2}))) == {low.id}
    assert ids(Filters(min_importance=4)) == {high.id}
    assert ids(Filters(min_importance=3)) == {low.id, high.id}
    visible = {row.id for row in raw if row.session_id == "s1"}
    assert ids(Filters(session_id="s1")) == visible | {free.id, low.id, high.id}
    assert ids(Filters(session_id="never seen")) == {free.id, low.id, high.id}
    assert ids(Filters(from_ms=NOW + 2, to_ms=NOW + 4)) == {raw[2].id, raw[3].id, high.id}
    assert ids(Filters(from_ms=NOW - 40, to_ms=NOW - 39)) == {low.id, high.id}
    assert ids(Filters(from_ms=NOW - 60, to_ms=NOW - 50)) == set()
    assert len(find(rig, vault, "otter", 1, Filters(session_id="s1", tiers=frozenset({1})))) == 1


def test_every_relevant_tier_stands_among_the_first_three(rig: IndexRig, vault: VaultRef, make: Maker) -> None:
    raw = [make.raw(f"granite granite {WORDS[place % 10]}", NOW + place) for place in range(30)]
    middle = reflection(make, "a long walk over hills ended at some granite quarry far away", 4, (NOW, NOW))
    top = reflection(make, "people who value stone prefer granite to many other things in life", 8, (NOW, NOW), 3)
    rig.write(vault, [*raw, middle, top])
    embed(rig, vault)
    ten, fifty = find(rig, vault, "granite", 10), find(rig, vault, "granite", 50)
    assert {1, 2, 3} == {hit.tier for hit in ten[:3]}
    assert ten == fifty[:10]
    scores = [hit.score for hit in fifty]
    assert scores == sorted(scores, reverse=True)
    assert 0.0 <= scores[-1] <= scores[0] <= 1.0


def test_a_second_vault_leaves_scores_bit_equal(rig: IndexRig, vault: VaultRef, make: Maker) -> None:
    rig.write(vault, [make.raw(f"{one} {two}") for one in WORDS for two in WORDS[:3]])
    embed(rig, vault)
    before = find(rig, vault, "copper violin", 30)
    other = rig.new_vault()
    rig.write(other, [make.raw("copper copper violin") for _ in range(200)])
    embed(rig, other)
    assert find(rig, vault, "copper violin", 30) == before


def test_vectors_for_rows_that_are_gone_are_passed_over(rig: IndexRig, vault: VaultRef, make: Maker) -> None:
    kept, gone = make.raw("harbour"), make.raw("meadow")
    rig.write(vault, [kept, gone])
    waiting = rig.index.without_vectors(vault, 10)
    rig.delete(vault, [gone])
    rig.index.put_vectors(vault, waiting, MODEL.embed_documents([passage.text for passage in waiting]))
    assert [hit.memory_id for hit in find(rig, vault, "meadow")] == [kept.id]
    assert rig.index.without_vectors(vault, 10) == ()


def test_indexing_a_row_twice_changes_nothing(rig: IndexRig, vault: VaultRef, make: Maker) -> None:
    rows = [make.raw(f"{word} and saffron", session="s") for word in WORDS]
    rig.write(vault, rows)
    embed(rig, vault)
    before = find(rig, vault, "saffron thistle", 10)
    rig.index.put_words(vault, rows[3:5])
    embed(rig, vault)
    assert_same(find(rig, vault, "saffron thistle", 10), before)


def test_rows_that_the_store_does_not_hold_any_more_do_not_come_back(
    rig: IndexRig, vault: VaultRef, make: Maker
) -> None:
    kept, gone, never = make.raw("harbour"), make.raw("meadow"), make.raw("meadow and copper")
    rig.write(vault, [kept, gone])
    find(rig, vault, "meadow")
    rig.delete(vault, [gone])
    for _ in range(2):
        rig.index.put_words(vault, [gone, kept, never])
        assert [hit.memory_id for hit in find(rig, vault, "meadow")] == [kept.id]
        assert rig.index.status(vault).passages == 1
        rig.restart()


def test_a_long_text_is_found_by_any_of_its_passages(rig: IndexRig, vault: VaultRef, make: Maker) -> None:
    filler = "Nothing of note happened on that grey and quiet day. "
    row = make.raw(filler * 100 + "Then a thistle bloomed. " + filler * 100)
    rig.write(vault, [row, *[make.raw(filler) for _ in range(5)]])
    assert rig.index.status(vault).passages > 20
    embed(rig, vault)
    assert find(rig, vault, "when did the thistle bloom", 1)[0].memory_id == row.id


rows_in_sessions = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
        st.sampled_from((None, "a", "b")),
        st.integers(0, 20),
        st.booleans(),
    ),
    min_size=2,
    max_size=14,
)


Plan = list[tuple[list[str], str | None, int, bool]]
queries = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3)


@pytest.mark.parametrize("rig", [SQLITE], indirect=True)
@given(plan=rows_in_sessions, query=queries)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_deletions_and_a_restart_scores_are_those_of_a_vault_that_never_held_the_rows(
    rig: IndexRig, plan: Plan, query: list[str]
) -> None:
    compare_with_a_clean_vault(rig, plan, query)


@pytest.mark.parametrize("rig", [OPENSEARCH], indirect=True)
@given(plan=rows_in_sessions, query=queries)
@settings(
    max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], phases=[Phase.explicit, Phase.generate]
)
def test_the_same_where_every_step_is_a_request(rig: IndexRig, plan: Plan, query: list[str]) -> None:
    compare_with_a_clean_vault(rig, plan, query)


def compare_with_a_clean_vault(rig: IndexRig, plan: Plan, query: list[str]) -> None:
    make = Maker()
    rows = [(make.raw(" ".join(words), NOW + late, session), keep) for words, session, late, keep in plan]
    kept = [row for row, keep in rows if keep]
    gone = [row for row, keep in rows if not keep]
    scarred, clean = rig.new_vault(), rig.new_vault()
    for row, _ in rows:
        rig.write(scarred, [row])
    embed(rig, scarred)
    find(rig, scarred, " ".join(query))
    if gone:
        rig.delete(scarred, gone)
    if kept:
        rig.write(clean, kept)
    embed(rig, clean)
    for restarted in (False, True):
        if restarted:
            rig.restart()
        assert_same(find(rig, scarred, " ".join(query), 50), find(rig, clean, " ".join(query), 50))
