"""A vault goes out in lines and comes back as it was."""

import base64
import json
from typing import Any

import pytest

from shared.domain.errors import Conflict, InvalidRequest, StaleEpoch, Unavailable
from shared.usecases import consolidate
from shared.usecases.deletion import delete_ids, delete_vault
from shared.usecases.ingest import NewMessage, ingest
from shared.usecases.inspect import inspect_memory
from shared.usecases.search import search
from shared.usecases.stats import stats
from shared.usecases.transfer import export_page, import_page
from tests.unit.usecases.world import World


def exported(world: World, key: str = "mk_one", limit: int = 1_000) -> list[str]:
    lines: list[str] = []
    cursor = None
    while True:
        page = export_page(world.services, world.caller(key), cursor, limit)
        assert len(page.lines) <= limit
        lines += page.lines
        cursor = page.next_cursor
        if cursor is None:
            return lines


def taken_back(world: World, lines: list[str], key: str = "mk_new", *, finish: bool = True, first: int = 1) -> Any:
    numbered = [(number, json.loads(line)) for number, line in enumerate(lines, start=first)]
    return import_page(world.services, world.caller(key), numbered, finish)


def lived_in(world: World) -> dict[str, Any]:
    """A vault with all tiers, a deleted source, a deleted reflection, a batch without reflections, an open lease."""
    raws = world.tell("red one", "blue two", "red three", date_ms=1_000)
    world.tell("in a session", session="s1", date_ms=2_000)
    first, reflections = world.consolidate(("about red", 8), ("about blue", 3))
    delete_ids(world.services, world.caller(), [raws[1], reflections[1]])
    second, high = world.consolidate(("what red means", 9), tier=2)
    world.tell("barren", date_ms=3_000)
    barren, gone = world.consolidate(("nothing much", 1))
    delete_ids(world.services, world.caller(), gone)
    world.tell("free", date_ms=4_000)
    world.tell("leased", date_ms=5_000)
    consolidate.checkout(world.services, world.caller(), 1, 1_000)
    return {"raws": raws, "reflections": reflections, "high": high, "batches": (first, second, barren)}


def test_a_line_tells_a_row_and_its_lineage(world: World) -> None:
    made = lived_in(world)
    lines = [json.loads(line) for line in exported(world)]
    assert [line["date"] for line in lines] == sorted(line["date"] for line in lines)
    by_id = {line["id"]: line for line in lines}
    assert set(by_id) >= {made["raws"][0], made["reflections"][0], made["high"][0]}
    raw = by_id[made["raws"][0]]
    assert (raw["tier"], raw["content"], raw["role"], raw["session_id"]) == (1, "red one", "user", None)
    assert (raw["importance"], raw["covers"], raw["batch_id"]) == (None, None, None)
    assert raw["consolidated_into"] == [made["reflections"][0]]
    assert (raw["consolidation"]["position"], raw["consolidation"]["batch"]["id"]) == (0, made["batches"][0])
    assert by_id[made["raws"][2]]["consolidation"]["position"] == 2
    reflection = by_id[made["reflections"][0]]
    assert (reflection["batch_id"], reflection["importance"], reflection["entry"]) == (made["batches"][0], 8, 0)
    assert reflection["covers"] == {"from": "1970-01-01T00:00:01.000Z", "to": "1970-01-01T00:00:02.000Z"}
    assert reflection["consolidated_into"] == made["high"]
    barren = next(line for line in lines if line["content"] == "barren")
    assert barren["consolidated_into"] == []
    assert barren["consolidation"]["batch"]["id"] == made["batches"][2]
    free = next(line for line in lines if line["content"] == "leased")
    assert "consolidation" not in free


def test_an_import_makes_the_vault_as_it_was(world: World) -> None:
    made = lived_in(world)
    lines = exported(world)
    total = len(lines)
    assert taken_back(world, lines[:3], finish=False) == {"status": "open", "stored": 3, "total": 3}
    # A page sent again, in another cut.
    assert taken_back(world, lines[1:5], finish=False) == {"status": "open", "stored": 2, "total": 5}
    invisible: Any = search(world.services, world.caller("mk_new"), "red", 10, None, None)
    assert invisible["memories"] == []
    assert stats(world.services, world.caller("mk_new"))["import_open"] is True
    assert taken_back(world, lines[5:], first=6) == {"status": "complete", "stored": total - 5, "total": total}
    # The last page again, after a lost answer; and a bare finish.
    assert taken_back(world, lines[5:]) == {"status": "complete", "stored": 0, "total": total}
    assert taken_back(world, []) == {"status": "complete", "stored": 0, "total": total}

    old, new = world.caller("mk_one"), world.caller("mk_new")
    assert new.record.importing is None
    assert exported(world, "mk_new") == lines
    assert exported(world, "mk_new", limit=2) == lines
    assert world.store.debt(new.vault) == world.store.debt(old.vault)
    for line in map(json.loads, lines):
        assert inspect_memory(world.services, new, line["id"], 0) == inspect_memory(world.services, old, line["id"], 0)
    found: Any = search(world.services, new, "red", 10, None, None)
    before: Any = search(world.services, old, "red", 10, None, None)
    assert found["memories"] == before["memories"]
    for batch_id in made["batches"]:
        replay: Any = consolidate.commit(world.services, new, batch_id, [("other", 1)])
        assert replay["already_committed"] is True
        assert replay == consolidate.commit(world.services, old, batch_id, [("other", 1)])
    assert world.store.totals(new.vault) == world.store.totals(old.vault)


def test_what_was_imported_can_be_undone(world: World) -> None:
    made = lived_in(world)
    taken_back(world, exported(world))
    undone = [consolidate.reopen(world.services, world.caller(key), made["batches"][2]) for key in ("mk_one", "mk_new")]
    assert undone[0] == undone[1]
    with pytest.raises(Conflict):
        consolidate.reopen(world.services, world.caller("mk_new"), made["batches"][0])
    batch: Any = consolidate.checkout(world.services, world.caller("mk_new"), 1, None)
    assert [row["text"] for row in batch["memories"]] == ["barren", "free", "leased"]


def test_an_import_needs_an_empty_vault(world: World) -> None:
    world.tell("mine", date_ms=0)
    lines = exported(world)
    world.tell("own", key="mk_new")
    for finish in (False, True):
        with pytest.raises(Conflict) as refused:
            taken_back(world, lines, finish=finish)
        assert refused.value.code == "vault_not_empty"
    assert world.caller("mk_new").record.importing is None


def test_an_import_cannot_swallow_a_row_that_came_in_between(world: World) -> None:
    world.tell("mine", date_ms=0)
    lines = exported(world)
    writer = world.caller("mk_new")
    taken_back(world, lines, finish=False)
    # A writer that read the vault before the import opened is sent back by the first page.
    with pytest.raises(StaleEpoch):
        ingest(world.services, writer, [NewMessage("user", "late")], None)
    taken_back(world, lines)
    assert exported(world, "mk_new") == lines
    with pytest.raises(StaleEpoch):
        ingest(world.services, writer, [NewMessage("user", "later still")], None)


def test_an_interrupted_import_can_be_thrown_away(world: World) -> None:
    world.tell("mine", date_ms=0)
    taken_back(world, exported(world), finish=False)
    delete_vault(world.services, world.caller("mk_new"), reset=False)
    assert world.tell("free", key="mk_new")
    assert [json.loads(line)["content"] for line in exported(world, "mk_new")] == ["free"]


def test_an_import_may_be_empty_and_is_not_held_up_by_old_files(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(vault_id: str, below_epoch: int) -> None:
        raise Unavailable("The disk does not answer.", code="storage_unavailable")

    monkeypatch.setattr(world.store, "purge", full)
    assert taken_back(world, []) == {"status": "complete", "stored": 0, "total": 0}
    assert world.caller("mk_new").record.importing is None


def test_a_bad_line_keeps_nothing_of_its_page(world: World) -> None:
    world.tell("one", "two", date_ms=0)
    lines = exported(world)
    broken = [lines[0], json.dumps({**json.loads(lines[1]), "role": 5})]
    with pytest.raises(InvalidRequest, match="line 2"):
        taken_back(world, broken)
    twice = [lines[0], json.dumps({**json.loads(lines[0]), "content": "other"})]
    with pytest.raises(InvalidRequest, match="line 2: the id was on line 1"):
        taken_back(world, twice)
    assert world.caller("mk_new").record.importing is None
    assert taken_back(world, [*lines, lines[0]])["total"] == 2


def test_an_import_binds_the_default_model(world: World) -> None:
    world.tell("one", date_ms=0)
    taken_back(world, exported(world))
    assert world.caller("mk_new").record.model == "small"


def test_pages_hold_what_was_asked_for_and_no_more_than_their_size(world: World) -> None:
    ids = world.tell(*[f"{number}" for number in range(700)], date_ms=0)
    assert [json.loads(line)["id"] for line in exported(world, limit=650)] == ids
    page = export_page(world.services, world.caller(), None, 700)
    assert (len(page.lines), page.next_cursor) == (700, None)
    world.tell(*["🙂" * 70_000] * 20, date_ms=1)
    large = export_page(world.services, world.caller(), None, 5_000)
    assert len(large.lines) == 714
    assert sum(len(line.encode()) + 1 for line in large.lines) <= 4 * 1024 * 1024
    assert len(exported(world, limit=5_000)) == 720


def test_pages_of_quotes_fit_an_answer_that_escapes_them(world: World) -> None:
    world.tell(*['"' * 100_000] * 20)
    page = export_page(world.services, world.caller(), None, 5_000)
    body = "".join(line + "\n" for line in page.lines)
    assert len(json.dumps(body, ensure_ascii=False).encode()) <= 5.5 * 1024 * 1024
    assert len(page.lines) == 14
    assert len(exported(world, limit=5_000)) == 20


def test_a_cursor_belongs_to_its_vault_and_is_taken_as_given(world: World) -> None:
    world.tell("one", "two", date_ms=-5)
    cursor = export_page(world.services, world.caller(), None, 1).next_cursor
    assert cursor is not None
    assert len(export_page(world.services, world.caller(), cursor, 1).lines) == 1
    made_up = base64.urlsafe_b64encode(b"0.9b2f1c34-6a7e-4d21-8f0a-3b5c9d7e1a22.0123456789abcdef").decode().rstrip("=")
    for bad in ("", "x", "ü", cursor[:-1], cursor + "=", cursor[:5] + "!" + cursor[5:], made_up, "LjEuMg"):
        with pytest.raises(InvalidRequest, match="cursor"):
            export_page(world.services, world.caller(), bad, 1)
    with pytest.raises(InvalidRequest, match="cursor"):
        export_page(world.services, world.caller("mk_two"), cursor, 1)


@pytest.mark.parametrize("limit", [0, 5_001])
def test_page_lengths_have_limits(world: World, limit: int) -> None:
    with pytest.raises(InvalidRequest, match="limit"):
        export_page(world.services, world.caller(), None, limit)


@pytest.mark.parametrize("step", ["store.complete_import", "store.seal", "directory.finish_import"])
def test_a_finish_that_was_interrupted_goes_on(world: World, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    world.tell("mine", date_ms=0)
    lines = exported(world)
    part, _, verb = step.partition(".")

    def torn(*given: object) -> None:
        raise Unavailable("The disk does not answer.", code="storage_unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(getattr(world, part), verb, torn)
        with pytest.raises(Unavailable):
            taken_back(world, lines)
    assert exported(world, "mk_new") == []
    # The vault is sealed before the first row is written, everything else comes after it.
    stored = 1 if step == "store.seal" else 0
    assert taken_back(world, lines) == {"status": "complete", "stored": stored, "total": 1}
    assert exported(world, "mk_new") == lines


def test_a_row_that_came_before_must_come_as_it_was(world: World) -> None:
    world.tell("one", date_ms=0)
    lines = exported(world)
    taken_back(world, lines, finish=False)
    other = json.dumps({**json.loads(lines[0]), "content": "other"})
    with pytest.raises(InvalidRequest, match="line 5"):
        taken_back(world, [other], first=5)
    assert taken_back(world, lines)["total"] == 1
    assert exported(world, "mk_new") == lines
