"""Adapters with one mistake each. The matrix is worth what it finds here: every one must be caught, in a named cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError

from shared.adapters.dynamodb import consolidation, layout, purging, refusals, settling, staging, values
from shared.adapters.dynamodb import rows as rows_module
from shared.adapters.dynamodb.counters import Counters
from shared.adapters.dynamodb.purging import PurgeVerbs
from shared.adapters.dynamodb.rows import RowVerbs
from shared.adapters.dynamodb.table import ConditionFailed, Table
from shared.adapters.dynamodb.values import Wire, key_of
from shared.domain.memory import Memory, VaultRef
from shared.ports.store import Appended, Idempotency
from tests.faults.hook import DEATHS, PASSING, Fault
from tests.faults.matrix import Reference, death, passing, play_all
from tests.faults.moments import Moment, at_every_request, deleting, early, goes_on, goes_one_step, helping
from tests.faults.scenarios import Scenario
from tests.faults.stage import FaultStage

Patch = Callable[[pytest.MonkeyPatch], None]
Cell = Callable[[FaultStage, Scenario, Reference], object]
FAULTS = {fault.name: fault for fault in (*PASSING, *DEATHS)}


@dataclass(frozen=True)
class Mistake:
    """`cell` raises for it on the vault and verb of the scenario of that name."""

    name: str
    patch: Patch
    scenario: str
    cell: Cell


MISTAKES: list[Mistake] = []


def mistake(name: str, scenario: str, cell: Cell) -> Callable[[Patch], Patch]:
    def note(patch: Patch) -> Patch:
        MISTAKES.append(Mistake(name, patch, scenario, cell))
        return patch

    return note


def fault(name: str) -> Cell:
    chosen: Fault = FAULTS[name]
    play = death if chosen in DEATHS else passing
    return lambda stage, scenario, reference: play_all(stage, scenario, reference, [chosen], play)


def at(moment: Moment) -> Cell:
    return lambda stage, scenario, reference: at_every_request(stage, scenario, reference, moment)


def every_request(patch: pytest.MonkeyPatch, change: Callable[[str, Wire, Callable[[Wire], Wire]], Wire]) -> None:
    """`change` stands between the adapter and its client: it gets the operation, the request, and how to send it."""

    class Between:
        def __init__(self, client: Any) -> None:
            self._client = client

        def __getattr__(self, operation: str) -> Any:
            send = getattr(self._client, operation)
            return lambda **request: change(operation, request, lambda changed: send(**changed))

    original = Table.__init__

    def init(self: Table, client: Any, *rest: Any, **named: Any) -> None:
        original(self, Between(client), *rest, **named)

    patch.setattr(Table, "__init__", init)


@mistake("a transaction that is sent again has no name", "append", fault("done, answer lost"))
def _(patch: pytest.MonkeyPatch) -> None:
    def change(operation: str, request: Wire, send: Callable[[Wire], Wire]) -> Wire:
        request.pop("ClientRequestToken", None)
        return send(request)

    every_request(patch, change)


@mistake("what a batch left out is taken for missing", "get", fault("half unprocessed"))
def _(patch: pytest.MonkeyPatch) -> None:
    def change(operation: str, request: Wire, send: Callable[[Wire], Wire]) -> Wire:
        return {**send(request), "UnprocessedKeys": {}} if operation == "batch_get_item" else send(request)

    every_request(patch, change)


@mistake("a lost answer of a put is a failure", "very large append", fault("done, answer lost"))
def _(patch: pytest.MonkeyPatch) -> None:
    def change(operation: str, request: Wire, send: Callable[[Wire], Wire]) -> Wire:
        try:
            return send(request)
        except BotoCoreError as error:
            if operation == "put_item":
                raise refusals.unreachable(error) from error
            raise

    every_request(patch, change)


@mistake("one throttled item fails the whole transaction", "release", fault("item throttled"))
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(refusals, "AGAIN", refusals.AGAIN - {"ThrottlingError", "ProvisionedThroughputExceeded"})


@mistake("a conflict is taken for a failed condition", "append repeated", fault("transaction conflict"))
@mistake("a conflict is taken for a failed condition", "large append with a key", fault("transaction conflict"))
def _(patch: pytest.MonkeyPatch) -> None:
    def misread(error: Any, insist: bool) -> Any:
        reasons = error.response.get("CancellationReasons") or []
        places = [place for place, reason in enumerate(reasons) if reason.get("Code") not in (None, "None")]
        found = {place: {"body": "other"} for place in places if "Item" in reasons[place]}
        return ([0, *places], found) if places else None

    patch.setattr("shared.adapters.dynamodb.table.failed_conditions", misread)


@mistake("the key's record is written before the rows", "append with a key", fault("death after"))
def _(patch: pytest.MonkeyPatch) -> None:
    original = RowVerbs.append

    def append(
        self: RowVerbs, vault: VaultRef, rows: Sequence[Memory], once: Idempotency | None, now_ms: int
    ) -> Appended:
        if once is not None:
            claim = rows_module._claim(vault, once, rows, None, now_ms)
            try:
                self._table.transact([Counters().write(vault), claim])
            except ConditionFailed as failed:
                return self._replayed(vault, once, failed.items[1])
        return original(self, vault, rows, None, now_ms)

    patch.setattr(RowVerbs, "append", append)


@mistake("the counters move in a transaction of their own", "delete free rows", fault("death after"))
@mistake("the counters move in a transaction of their own", "append", fault("death after"))
def _(patch: pytest.MonkeyPatch) -> None:
    original = Table.transact

    def transact(self: Table, operations: Sequence[Wire], **named: Any) -> None:
        first, *others = operations
        if others and first.get("Update", {}).get("Key", {}).get("sk") == {"S": "D"}:
            original(self, others, **named)
            original(self, [first], **named)
        else:
            original(self, operations, **named)

    patch.setattr(Table, "transact", transact)


def unguarded(request: Wire, clause: str, value: str) -> Wire:
    """The write without one clause of its condition."""
    ((kind, write),) = request.items()
    condition = write.get("ConditionExpression", "")
    if clause not in condition:
        return request
    left = condition.replace(f" AND {clause}", "").replace(clause, "")
    write = {name: each for name, each in write.items() if name != "ConditionExpression"}
    write |= {"ConditionExpression": left} if left else {}
    said = write.get("UpdateExpression", "") + left
    names = {name: each for name, each in write["ExpressionAttributeNames"].items() if name in said}
    values = {name: each for name, each in write["ExpressionAttributeValues"].items() if name != value}
    write |= {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
    return {kind: {name: each for name, each in write.items() if each}}


def without(patch: pytest.MonkeyPatch, module: Any, maker: str, clause: str, value: str) -> None:
    original = getattr(module, maker)
    patch.setattr(module, maker, lambda *given, **named: unguarded(original(*given, **named), clause, value))


@mistake("a settling step looks at the state alone", "commit in short steps", at(helping(goes_one_step)))
def _(patch: pytest.MonkeyPatch) -> None:
    without(patch, settling, "_step", "#through = :through", ":through")


@mistake("rows of a large write are published by whoever comes", "large append", at(helping(goes_on)))
def _(patch: pytest.MonkeyPatch) -> None:
    without(patch, staging, "update", "#through = :through", ":through")
    without(patch, staging, "delete", "#through = :through", ":through")


@mistake("a mark makes a deleted source anew", "commit", at(deleting("first source")))
def _(patch: pytest.MonkeyPatch) -> None:
    without(patch, settling, "update", "attribute_exists(#pk) AND attribute_not_exists(#by)", "")


@mistake("sources that are gone at the settling are not counted", "commit", at(deleting("last source")))
def _(patch: pytest.MonkeyPatch) -> None:
    original = settling._step

    def step(vault: VaultRef, batch: Any, through: int, following: int, gone: int, *, settled: bool) -> Wire:
        return original(vault, batch, through, following, 0, settled=settled)

    patch.setattr(settling, "_step", step)


def checked(key: Any) -> Wire:
    """Demands that the item is there, and leaves it as it is."""
    condition = {"ConditionExpression": "attribute_exists(#pk)", "ExpressionAttributeNames": {"#pk": "pk"}}
    return {"ConditionCheck": {"Key": key_of(key), **condition}}


@mistake("the commit leaves the source list its time to live", "commit", at(early("source lists")))
def _(patch: pytest.MonkeyPatch) -> None:
    original = values.update

    def update(key: Any, change: str, *rest: Any, **given: Any) -> Wire:
        return checked(key) if change == "REMOVE #ttl" else original(key, change, *rest, **given)

    patch.setattr(consolidation, "update", update)


@mistake("staged texts keep their time to live", "very large append", at(early("staged texts")))
def _(patch: pytest.MonkeyPatch) -> None:
    original = values.update

    def update(key: Any, change: str, *rest: Any, **given: Any) -> Wire:
        return checked(key) if change == f"REMOVE #{layout.TTL}" else original(key, change, *rest, **given)

    patch.setattr(staging, "update", update)


@mistake("a purge ends with its first page", "purge", fault("throttled"))
def _(patch: pytest.MonkeyPatch) -> None:
    def emptied(self: PurgeVerbs, vault: VaultRef, *_: Any) -> bool:
        pk = layout.partition(vault)
        page = islice(self._table.query(pk, attributes=("sk",)), purging.LISTED_AT_ONCE)
        self._table.delete_all([(pk, item["sk"]) for item in page if item["sk"] != "D"])
        return False

    patch.setattr(PurgeVerbs, "_emptied", emptied)
