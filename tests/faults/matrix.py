"""One cell of the matrix: a verb, a fault, and the request that it befalls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from shared.adapters import dynamodb
from shared.domain.errors import RateLimited, StrataError, Unavailable
from tests.faults.hook import TRANSACTION, Died, Fault, Sending, dies_after
from tests.faults.scenarios import Scenario
from tests.faults.stage import Content, FaultStage, Site, check_counts

LONGEST_S = 20.0


@dataclass(frozen=True)
class Reference:
    """What an undisturbed verb does: its vault before and after, its answer, and its requests."""

    before: Content
    answer: Any
    after: Content
    operations: tuple[str, ...]

    @property
    def partitions(self) -> list[str]:
        return [*{**self.before, **self.after}]

    def places(self, fault: Fault) -> Iterator[int]:
        return (place for place, operation in enumerate(self.operations) if fault.strikes(operation))


def shrink(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in scenario.small.items():
        monkeypatch.setattr(f"{dynamodb.__name__}.{name}", limit)


def outcome(verb: Any, site: Site) -> Any:
    """What a caller gets: an answer, the code of a refusal, or the failure itself."""
    try:
        return verb(site)
    except (Unavailable, RateLimited) as failure:
        return failure
    except StrataError as refusal:
        return refusal.code


def refer(stage: FaultStage, scenario: Scenario) -> Reference:
    site = stage.site()
    for step in scenario.before:
        step(site)
    if scenario.cut is not None:
        cut_short(stage, site, scenario)
    before = stage.content(site.vault.vault_id)
    site = stage.site(stage.copy(before), watched=True)
    stage.hook.aim()
    answer = outcome(scenario.verb, site)
    operations = tuple(stage.hook.operations)
    assert not isinstance(answer, StrataError)
    after = stage.content(site.vault.vault_id)
    stage.drive(site)
    stage.audited(site)
    return Reference(before, spoken(answer, site), after, operations)


def cut_short(stage: FaultStage, site: Site, scenario: Scenario) -> None:
    def act(sending: Sending) -> None:
        if sending.operation == TRANSACTION:
            dies_after(sending)

    assert scenario.cut is not None
    stage.hook.aim(act, always=True)
    with pytest.raises(Died):
        scenario.cut(stage.site(site.vault.vault_id, watched=True))
    stage.hook.aim()


def spoken(answer: Any, site: Site) -> Any:
    """An answer with the vault's own name taken out of its text."""
    return repr(answer).replace(site.vault.vault_id, "@") if "vault_id" in repr(answer) else answer


def passing(stage: FaultStage, scenario: Scenario, reference: Reference, fault: Fault, place: int) -> None:
    """A fault that another try mends: nobody notices."""
    site = stage.site(stage.copy(reference.before), watched=True)
    stage.hook.aim(fault.at(place), place)
    answer = outcome(scenario.verb, site)
    assert stage.hook.struck == 1
    answer = spoken(answer, site)
    assert answer == reference.answer, f"{answer!r} instead of {reference.answer!r}"
    content = stage.content(site.vault.vault_id, reference.partitions)
    if not (scenario.losable and content == reference.before):
        assert content == reference.after, difference(content, reference.after)


def death(stage: FaultStage, scenario: Scenario, reference: Reference, fault: Fault, place: int) -> None:
    """The process ends: its caller comes again, and in another run only the change stream goes on."""
    for comes_again in (True, False):
        vault_id = stage.copy(reference.before)
        stage.hook.aim(fault.at(place), place)
        with pytest.raises(Died):
            scenario.verb(stage.site(vault_id, watched=True))
        stage.hook.aim()
        survive(stage, scenario, reference, vault_id, comes_again=comes_again)


def lasting(stage: FaultStage, scenario: Scenario, reference: Reference, fault: Fault, place: int) -> None:
    """A fault that does not end: the verb gives up in time, tells when to come again, and then it works."""
    vault_id = stage.copy(reference.before)
    site = stage.site(vault_id, watched=True)
    began = stage.clock.now
    stage.hook.aim(fault.at(place), place, always=True)
    answer = outcome(scenario.verb, site)
    stage.hook.aim()
    assert stage.clock.now - began <= LONGEST_S
    if not scenario.quiet:
        assert isinstance(answer, (Unavailable, RateLimited)), f"answered {answer!r}"
        assert answer.retry_after
    survive(stage, scenario, reference, vault_id, comes_again=True)


def survive(stage: FaultStage, scenario: Scenario, reference: Reference, vault_id: str, *, comes_again: bool) -> None:
    """Whatever was left makes no row count twice or not at all, and is brought to the end that it was to have."""
    site = stage.site(vault_id)
    for name, items in stage.content(vault_id, reference.partitions).items():
        if name.count("#") == 2:
            check_counts(items)
    if comes_again and scenario.again is not None:
        repeated = spoken(outcome(scenario.again, site), site)
        assert scenario.same(reference.answer, repeated), f"{repeated!r} instead of {reference.answer!r}"
        content = stage.content(vault_id, reference.partitions)
        if scenario.returns:
            found, wanted = lasting_part(content), lasting_part(reference.after)
            assert found == wanted, difference(found, wanted)
            return
    else:
        stage.drive(site)
        content = stage.content(vault_id, reference.partitions)
        if lasting_part(content) in (lasting_part(reference.before), lasting_part(reference.after)):
            return
    stage.audited(site)


def difference(found: Content, wanted: Content) -> str:
    """The items in which two contents differ."""
    return "; ".join(
        f"{name} {sort}: {found.get(name, {}).get(sort)} instead of {wanted.get(name, {}).get(sort)}"
        for name in {**found, **wanted}
        for sort in {**found.get(name, {}), **wanted.get(name, {})}
        if found.get(name, {}).get(sort) != wanted.get(name, {}).get(sort)
    )


def lasting_part(content: Content) -> Content:
    """The content without what goes by itself: staged texts that no commit point made certain."""
    return {
        name: {sort: item for sort, item in items.items() if not (sort.startswith("T#") and "ttl" in item)}
        for name, items in content.items()
    }


Play = Callable[[FaultStage, Scenario, Reference, Fault, int], None]


def play_all(stage: FaultStage, scenario: Scenario, reference: Reference, faults: Sequence[Fault], play: Play) -> int:
    """All cells of a verb; returns how many. A failure names the cell."""
    cells = [(fault, place) for fault in faults for place in reference.places(fault)]
    for fault, place in cells:
        try:
            play(stage, scenario, reference, fault, place)
        except Exception as failure:
            failure.add_note(f"cell: {scenario.name}, {fault.name}, request {place} of {reference.operations}")
            raise
    return len(cells)
