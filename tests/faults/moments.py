"""What else may happen to the table while a verb runs, and what must hold afterwards.

Every `Moment` lets it happen before the request at one place of the verb.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shared.domain.batch import State
from shared.domain.errors import RateLimited, StaleEpoch, Unavailable
from shared.domain.memory import VaultRef
from shared.domain.selection import Budget
from shared.ports.store import CheckedOut, Committed, Deleted, Lease
from tests.contract.rows import LEASE, MINUTE, NOW
from tests.faults.hook import TRANSACTION, Sending, dies_after, meanwhile
from tests.faults.matrix import Reference, outcome
from tests.faults.scenarios import BATCH, DAY, ENTRIES, FRESH, IDS, ROWS, WRITTEN, Scenario
from tests.faults.stage import FaultStage, Site, check_counts, is_header

MONTH = NOW + 30 * DAY
FAILED = (Unavailable, RateLimited)
Meddle = Callable[[str], Callable[[], object]]
Moment = Callable[[FaultStage, Scenario, Reference, int], None]


def at_every_request(stage: FaultStage, scenario: Scenario, reference: Reference, moment: Moment) -> int:
    """Returns how many requests there are. A failure names the place."""
    for place in range(len(reference.operations)):
        try:
            moment(stage, scenario, reference, place)
        except Exception as failure:
            failure.add_note(f"{scenario.name}, before request {place} of {reference.operations}")
            raise
    return len(reference.operations)


def meddled(
    stage: FaultStage, scenario: Scenario, reference: Reference, meddle: Meddle, place: int
) -> tuple[Site, Any]:
    """The vault and the answer after something happened before the request at that place."""
    vault_id = stage.copy(reference.before)
    stage.hook.aim(meanwhile(meddle(vault_id)), place)
    answer = outcome(scenario.verb, stage.site(vault_id, watched=True))
    stage.hook.aim()
    for items in stage.content(vault_id, reference.partitions).values():
        check_counts(items)
    return stage.site(vault_id), answer


def is_like(answer: Any, wanted: Any) -> bool:
    """The same but for ids and counts."""
    return type(answer) is type(wanted)


KINDS: dict[str, Callable[[str], bool]] = {
    "everything": lambda sort: True,
    "headers": is_header,
    "source lists": lambda sort: sort.endswith("#S0"),
    "staged texts": lambda sort: sort.startswith("T#"),
    "idempotency records": lambda sort: sort.startswith("I#"),
}


def early(kind: str) -> Moment:
    """Deletion by time to live, by a clock that is a month ahead of the caller's, comes to some kind of item."""

    def moment(stage: FaultStage, scenario: Scenario, reference: Reference, place: int) -> None:
        site, answer = meddled(
            stage, scenario, reference, lambda vault_id: stage.reap(vault_id, MONTH // 1000, KINDS[kind]), place
        )
        refused = isinstance(answer, FAILED) or answer in ("not_found", "lease_expired")
        assert refused or is_like(answer, reference.answer), f"{answer!r}"
        stage.drive(site)
        # A caller with a later clock finds whatever is not consolidated.
        there = site.store.get(site.vault, [row.id for row in ROWS])
        late = site.store.checkout(site.vault, 1, Budget(), Lease(FRESH, MONTH + LEASE, LEASE))
        taken = {row.id for row in late.memories} if isinstance(late, CheckedOut) else set()
        marked = {row.id for row in there.values() if row.consolidated_by}
        assert there.keys() <= taken | marked, "rows are neither free nor consolidated"
        stage.audited(site)

    return moment


DELETED: dict[str, Sequence[str]] = {
    "first source": IDS[:1], "last source": IDS[3:4], "every source": IDS[:4], "a reflection": WRITTEN[:1],
    "a free row": IDS[5:6],
}  # fmt: skip


def deleting(what: str) -> Moment:
    """Rows are deleted."""

    def moment(stage: FaultStage, scenario: Scenario, reference: Reference, place: int) -> None:
        gone: list[Deleted] = []

        def meddle(vault_id: str) -> Callable[[], object]:
            store = stage.site(vault_id).store
            return lambda: gone.append(store.delete(VaultRef(vault_id, 1), DELETED[what], NOW))

        site, answer = meddled(stage, scenario, reference, meddle, place)
        assert answer == "sources_deleted" or is_like(answer, reference.answer), f"{answer!r}"
        stage.drive(site)
        if isinstance(answer, Committed):
            held = len(site.store.sources(site.vault, BATCH, 0, 100).memories)
            batch = site.store.batch(site.vault, BATCH)
            assert batch is not None
            assert batch.state is State.SETTLED
            assert batch.count == held + batch.sources_deleted, "a deleted source is not counted"
            assert held <= answer.sources_consolidated <= 4
            repeated = site.store.commit(site.vault, BATCH, ENTRIES, NOW + MINUTE)
            assert (repeated.created, repeated.sources_consolidated) == (answer.created, answer.sources_consolidated)
        assert not site.store.get(site.vault, [memory_id for memory_id, _ in gone[0].rows]), "a deleted row is back"
        stage.audited(site)

    return moment


Other = Callable[[FaultStage, str], Callable[[], object]]


def goes_on(stage: FaultStage, vault_id: str) -> Callable[[], object]:
    """Another settler that does all the rest."""
    return lambda: stage.drive(stage.site(vault_id))


def goes_one_step(stage: FaultStage, vault_id: str) -> Callable[[], object]:
    """Another settler that does one step and is never heard of again."""

    def step(sending: Sending) -> None:
        if sending.operation == TRANSACTION:
            dies_after(sending)

    return lambda: stage.hook.aside(step, lambda: stage.drive(stage.site(vault_id, watched=True)))


def helping(other: Other) -> Moment:
    def moment(stage: FaultStage, scenario: Scenario, reference: Reference, place: int) -> None:
        site, answer = meddled(stage, scenario, reference, lambda vault_id: other(stage, vault_id), place)
        assert answer == reference.answer, f"{answer!r} instead of {reference.answer!r}"
        found = stage.content(site.vault.vault_id, reference.partitions)
        assert found == reference.after, "two hands left something else than one"

    return moment


def emptying(stage: FaultStage, scenario: Scenario, reference: Reference, place: int) -> None:
    """The vault is emptied: a writer of the old content writes nothing that stays, and answers nothing wrong."""

    def meddle(vault_id: str) -> Callable[[], object]:
        def act() -> None:
            site = stage.site(vault_id)
            site.store.purge(vault_id, site.directory.next_epoch(vault_id, unbind=False))

        return act

    site, answer = meddled(stage, scenario, reference, meddle, place)
    assert answer in ("stale_epoch", "not_found") or answer == reference.answer, f"{answer!r}"
    try:
        site.store.debt(site.vault)
    except StaleEpoch:
        site.store.purge(site.vault.vault_id, 2)
    else:
        raise AssertionError("a dropped content is readable")
    left = stage.content(site.vault.vault_id)
    assert left.get("V#@#1", {}).keys() <= {"D"}
    assert "V#@#2" not in left, "the new content was touched"
