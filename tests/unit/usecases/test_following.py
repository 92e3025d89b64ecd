"""What follows a write: every task is done, tried again later, or given up with a reason, each for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from shared.domain.errors import NotFound, StaleEpoch, Unavailable, VaultFull
from shared.domain.memory import Memory, VaultRef
from shared.ports.dead_letters import DeadLetter, Kind, Task
from shared.usecases.following import follow, sweep
from shared.usecases.repair import rebuild, redrive
from tests.unit.usecases.fakes import SmallModel
from tests.unit.usecases.world import World

DOWN = Unavailable("The index does not answer.", code="search_unavailable", retry_after=2)


def tasks_of(vault: VaultRef, ids: Sequence[str]) -> list[Task]:
    return [Task(Kind.INDEX, vault, memory_id) for memory_id in ids]


class Refused(Unavailable):
    """As an index answers that took all rows but some."""

    def __init__(self, memory_ids: Sequence[str]) -> None:
        super().__init__("refused", code="search_unavailable", retry_after=2)
        self.memory_ids = tuple(memory_ids)


def refusing(world: World, monkeypatch: pytest.MonkeyPatch, bad: str, error: Callable[[], Exception]) -> list[int]:
    """The index fails whenever the row `bad` is among those it is given; returns the sizes of all attempts."""
    put, sizes = world.index.put_words, list[int]()

    def put_some(vault: VaultRef, memories: Sequence[Memory]) -> None:
        sizes.append(len(memories))
        if bad in [memory.id for memory in memories]:
            raise error()
        put(vault, memories)

    monkeypatch.setattr(world.index, "put_words", put_some)
    return sizes


def test_rows_come_with_words_and_vectors(world: World) -> None:
    ids = world.tell("one", "two")
    vault = world.caller().vault
    outcome = follow(world.services, tasks_of(vault, [*ids, ids[0]]), 10)
    assert (outcome.failed, outcome.given_up) == ([], [])
    assert set(world.index.rows[vault]) == set(ids)
    assert world.index.status(vault).without_vector == 0


def test_one_bad_row_is_found_among_many_and_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = world.tell(*(f"row {number}" for number in range(100)))
    vault = world.caller().vault
    sizes = refusing(world, monkeypatch, ids[37], lambda: ValueError("a text of somebody"))
    outcome = follow(world.services, tasks_of(vault, ids), 0)
    assert outcome.failed == []
    assert outcome.given_up == [DeadLetter(Task(Kind.INDEX, vault, ids[37]), "ValueError")]
    assert set(world.index.rows[vault]) == set(ids) - {ids[37]}
    # Halving 100 rows to one takes seven steps of two attempts each.
    assert len(sizes) <= 1 + 2 * 7


def test_rows_that_the_index_names_are_given_up_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A neighbour that nobody asked about may be among them."""
    ids = world.tell("one", "two", "three")
    vault = world.caller().vault
    sizes = refusing(world, monkeypatch, ids[0], lambda: Refused([ids[0], ids[2]]))
    outcome = follow(world.services, tasks_of(vault, ids[:2]), 0)
    assert outcome.failed == []
    assert [(letter.task.name, letter.reason) for letter in outcome.given_up] == [
        (ids[0], "Refused: search_unavailable"),
        (ids[2], "Refused: search_unavailable"),
    ]
    assert sizes == [2]


def test_an_index_that_is_down_is_asked_again_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = world.tell("one", "two")
    others = world.tell("three", key="mk_two")
    vault, other = world.caller().vault, world.caller("mk_two").vault
    refusing(world, monkeypatch, mine[0], lambda: DOWN)
    outcome = follow(world.services, tasks_of(vault, mine) + tasks_of(other, others), 0)
    assert outcome.failed == tasks_of(vault, mine)
    assert outcome.given_up == []
    assert set(world.index.rows[other]) == set(others)


def test_vectors_that_cannot_be_made_fail_no_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = world.tell("one")
    vault = world.caller().vault

    def down(texts: Sequence[str]) -> None:
        raise Unavailable("The model does not answer.", code="embedding_unavailable", retry_after=5)

    monkeypatch.setattr(world.models["small"], "embed_documents", down)
    outcome = follow(world.services, tasks_of(vault, ids), 10)
    assert (outcome.failed, outcome.given_up) == ([], [])
    assert world.index.status(vault).without_vector == 1
    world.models["small"] = SmallModel("small")
    assert sweep(world.services, 10, lambda: True) == 1
    assert world.index.status(vault).without_vector == 0
    assert sweep(world.services, 10, lambda: True) == 0


def test_no_vector_is_begun_when_the_time_is_over(world: World) -> None:
    ids = world.tell(*(f"row {number}" for number in range(200)))
    vault = world.caller().vault
    moments = iter([True, False])
    follow(world.services, tasks_of(vault, ids), 1_000, lambda: next(moments))
    assert world.index.status(vault).without_vector == 200 - 96
    follow(world.services, [], 1_000)
    assert sweep(world.services, 1_000, lambda: False) == 1
    assert world.index.status(vault).without_vector == 200 - 96


def test_a_content_that_was_dropped_leaves_nothing_in_the_index(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion, purge included, comes between the reading of the rows and their writing."""
    ids = world.tell("one")
    vault = world.caller().vault
    put = world.index.put_words

    def put_late(of: VaultRef, memories: Sequence[Memory]) -> None:
        put(of, memories)
        world.directory.next_epoch(vault.vault_id, unbind=False)

    monkeypatch.setattr(world.index, "put_words", put_late)
    outcome = follow(world.services, tasks_of(vault, ids), 10)
    assert (outcome.failed, outcome.given_up) == ([], [])
    assert vault not in world.index.rows


@pytest.mark.parametrize(("kind", "verb"), [(Kind.SETTLE, "heal"), (Kind.PUBLISH, "finish"), (Kind.PURGE, "purge")])
def test_each_kind_of_task_calls_its_verb(kind: Kind, verb: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = VaultRef("00000000-0000-4000-8000-000000000009", 4)
    answers: list[Exception | None] = [None, StaleEpoch("dropped"), NotFound("none"), DOWN, VaultFull("full")]
    called: list[tuple[object, ...]] = []

    def verb_of_store(*arguments: object) -> None:
        called.append(arguments)
        if (error := answers[len(called) - 1]) is not None:
            raise error

    monkeypatch.setattr(world.store, verb, verb_of_store)
    task = Task(kind, vault, "" if kind is Kind.PURGE else "name")
    outcomes = [follow(world.services, [task], 0) for _ in answers]
    assert called == [(vault.vault_id, 4) if kind is Kind.PURGE else (vault, "name")] * len(answers)
    assert [bool(outcome.failed) for outcome in outcomes] == [False, False, False, True, False]
    assert [letter.reason for letter in outcomes[-1].given_up] == ["VaultFull: vault_full"]


def test_a_purge_that_goes_on_by_itself_is_done_for_now(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = world.tell("one")
    vault = world.caller().vault
    follow(world.services, tasks_of(vault, ids), 0)
    task = Task(Kind.PURGE, VaultRef(vault.vault_id, vault.epoch + 1))
    for goes_on in (False, True):
        assert vault in world.index.rows

        def unfinished(vault_id: str, below: int, said: bool = goes_on) -> None:
            raise Unavailable("more", code="storage_unavailable", retry_after=1, extra={"goes_on": said})

        monkeypatch.setattr(world.store, "purge", unfinished)
        assert follow(world.services, [task], 0).failed == ([] if goes_on else [task])
    assert vault not in world.index.rows


def test_letters_are_worked_off_from_the_rows_as_they_are_now(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = world.tell("one", "two", "three")
    vault = world.caller().vault
    letters = [DeadLetter(task, "ValueError") for task in tasks_of(vault, ids)]
    world.letters.send(letters[:1])
    world.letters.send(letters[1:])
    world.store.delete(vault, [ids[0]], world.clock.ms)
    with monkeypatch.context() as patched:
        refusing(world, patched, ids[2], ValueError)
        first = redrive(world.services, lambda what, count: None)
    assert (first.done, first.failed, first.foreign) == (2, 1, 0)
    assert set(world.index.rows[vault]) == {ids[1]}
    second = redrive(world.services, lambda what, count: None)
    assert (second.done, second.failed) == (2, 0)
    assert set(world.index.rows[vault]) == {ids[1], ids[2]}
    assert redrive(world.services, lambda what, count: None).done == 0


def test_a_rebuild_of_a_vault_that_is_always_being_written_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after its beginning is not its own: whoever writes it has it indexed."""
    before = world.tell(*(f"row {number}" for number in range(3)))
    vault = world.caller().vault
    export, reads = world.services.store.export, list[int]()

    def read_while_written(vault: VaultRef, after: tuple[int, str] | None, limit: int) -> tuple[Memory, ...]:
        found = export(vault, after, limit)
        reads.append(len(found))
        assert len(reads) < 10, "it follows the writer"
        world.tell(f"written after reading {len(reads)} times")
        return found

    monkeypatch.setattr(world.services.store, "export", read_while_written)
    done = rebuild(world.services, vault, lambda what, count: None)
    assert reads == [3]
    assert done.rows == 3
    assert set(before) <= set(world.index.rows[vault])
