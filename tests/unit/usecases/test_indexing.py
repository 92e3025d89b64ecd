"""The index follows the store: words first, vectors when the model can, nothing of what was deleted."""

from collections.abc import Sequence

import pytest

from shared.domain.memory import Memory, VaultRef
from shared.ports.store import Change
from shared.usecases.indexing import catch_up, fill_vectors, index_changes
from tests.unit.usecases.fakes import NOW, SmallModel
from tests.unit.usecases.world import World


def test_changes_bring_words_and_some_vectors(world: World) -> None:
    ids = world.tell("one", "two", "three")
    vault = world.caller().vault
    changes = world.feed.pending(vault, 10)
    index_changes(world.services, vault, changes, 2)
    assert set(world.index.rows[vault]) == set(ids)
    assert world.index.status(vault).without_vector == 1
    assert fill_vectors(world.services, vault, 10) == 1
    assert fill_vectors(world.services, vault, 10) == 0
    index_changes(world.services, vault, [], 10)


def test_deleted_rows_leave(world: World) -> None:
    ids = world.tell("one", "two")
    vault = world.caller().vault
    catch_up(world.services, vault)
    world.store.delete(vault, ids[:1], NOW)
    catch_up(world.services, vault)
    assert set(world.index.rows[vault]) == {ids[1]}
    assert world.feed.pending(vault, 10) == ()


def test_a_row_deleted_while_it_is_indexed_leaves_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = world.tell("one", "two")
    vault = world.caller().vault
    put = world.index.put_words

    def put_late(vault: VaultRef, memories: Sequence[Memory]) -> None:
        world.store.delete(vault, ids[:1], NOW)
        put(vault, memories)

    monkeypatch.setattr(world.index, "put_words", put_late)
    index_changes(world.services, vault, [Change(number, memory_id) for number, memory_id in enumerate(ids)], 0)
    assert set(world.index.rows[vault]) == {ids[1]}


def test_catching_up_goes_through_everything(world: World) -> None:
    world.tell(*["x"] * 500)
    world.tell(*["x"] * 500)
    world.tell("x")
    vault = world.caller().vault
    catch_up(world.services, vault)
    assert world.index.status(vault).passages == 1_001
    assert world.feed.pending(vault, 10) == ()


def test_vectors_wait_for_their_model(world: World) -> None:
    world.tell("one")
    vault = world.caller().vault
    catch_up(world.services, vault)
    world.models["small"] = SmallModel("small", loaded=False)
    assert fill_vectors(world.services, vault, 10) == 0
    del world.models["small"]
    assert fill_vectors(world.services, vault, 10) == 0
    assert world.index.status(vault).without_vector == 1
