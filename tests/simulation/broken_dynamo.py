"""DynamoDB adapters with one mistake each: a condition less, a step outside its transaction, a look not taken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from shared.adapters.dynamodb import checkout, consolidation, counters, leases, rows, settling
from shared.adapters.dynamodb.layout import list_key
from shared.adapters.dynamodb.leases import Ledger, Opened
from shared.adapters.dynamodb.store import DynamoStore
from shared.adapters.dynamodb.values import Wire, update
from shared.domain.memory import VaultRef
from tests.simulation.broken import Collecting, Mistake

MISTAKES: list[Mistake] = []


mistake = Collecting(MISTAKES)


def without_condition(operation: Wire) -> Wire:
    """The operation, unconditional. Names and values that only the condition used go with it."""
    ((kind, request),) = operation.items()
    kept = {name: value for name, value in request.items() if not name.startswith(("Condition", "ReturnValues"))}
    words = set(re.findall(r"[#:]\w+", kept.get("UpdateExpression", "")))
    for field in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        used = {name: value for name, value in kept.pop(field, {}).items() if name in words}
        kept |= {field: used} if used else {}
    return {kind: kept}


def unconditional(patch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    original = getattr(module, name)
    patch.setattr(module, name, lambda *a, **k: without_condition(original(*a, **k)))


@mistake("a checkout does not watch the ledger's version", "two checkouts", "three checkouts of two rows")
def _(patch: pytest.MonkeyPatch) -> None:
    original = Ledger.enter

    def enter(self: Ledger, *arguments: Any) -> Wire:
        return without_condition(original(self, *arguments))

    patch.setattr(Ledger, "enter", enter)


@mistake("an empty answer does not look again", "release, the delete of all that was free, and an empty answer")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "__eq__", lambda *_: True)


@mistake("a flip does not ask whether the lease still stands", "two commits with other entries", "release and commit")
def _(patch: pytest.MonkeyPatch) -> None:
    def changed(*arguments: Any, **values: Any) -> Wire:
        return without_condition(update(*arguments, **values))

    patch.setattr(consolidation, "update", changed)


@mistake("a step of settling does not ask where the batch stands", "commit, its replay and a checkout")
def _(patch: pytest.MonkeyPatch) -> None:
    unconditional(patch, settling, "_step")


@mistake("a mark does not ask whether its row is there", "delete and commit", "delete of everything and commit")
def _(patch: pytest.MonkeyPatch) -> None:
    def mark(*arguments: Any, **values: Any) -> Wire:
        operation = update(*arguments, **values)
        return without_condition(operation) if "place" in values else operation

    patch.setattr(settling, "update", mark)


@mistake("a deletion does not ask whether its row was consolidated", "delete and commit", "two deletes")
def _(patch: pytest.MonkeyPatch) -> None:
    unconditional(patch, rows, "delete")


@mistake("the batch leaves the ledger at the flip", "commit, its replay and a checkout")
def _(patch: pytest.MonkeyPatch) -> None:
    def flip(self: Any, vault: VaultRef, batch: Any, *arguments: Any) -> bool:
        done = original(self, vault, batch, *arguments)
        if done:
            self._table.transact([leases.leave(vault, batch.tier, [batch.id])])
        return done

    original = DynamoStore._flip
    patch.setattr(DynamoStore, "_flip", flip)


@mistake("an overdue batch is dropped whatever its state", "reclaim and commit", crashes=1)
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DynamoStore, "_sorted_out", lambda self, vault, names, now_ms: ([], list(names), []))


@mistake("a fence does not ask for the lease's own expiry", "renew and reclaim")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkout, "fence", lambda vault, batch_id, now_ms: leases.fence(vault, batch_id, 2**52))


@mistake("a reopen does not watch the ledger of its reflections", "reopen and a checkout of its reflections")
def _(patch: pytest.MonkeyPatch) -> None:
    original = Ledger.enter

    def enter(self: Ledger, vault: VaultRef, batch_id: str, entry: Opened, leaving: Sequence[str] = ()) -> Wire:
        operation = original(self, vault, batch_id, entry, leaving)
        return without_condition(operation) if entry.undo else operation

    patch.setattr(Ledger, "enter", enter)


@mistake("a reopen hides its reflections from nobody", "reopen and a checkout of its reflections")
def _(patch: pytest.MonkeyPatch) -> None:
    def flip_back(self: DynamoStore, vault: VaultRef, batch: Any, now_ms: int) -> Any:
        counts = original(self, vault, batch, now_ms)
        if counts is not None:
            self._table.transact([leases.leave(vault, batch.tier + 1, [batch.id])])
        return counts

    original = DynamoStore._flip_back
    patch.setattr(DynamoStore, "_flip_back", flip_back)


@mistake("a seal stops nobody", "a writer and the seal")
def _(patch: pytest.MonkeyPatch) -> None:
    original = counters.Counters.write

    def write(self: counters.Counters, vault: VaultRef, condition: str = "") -> Wire:
        return without_condition(original(self, vault, condition))

    patch.setattr(counters.Counters, "write", write)


@mistake("the record of a request is written before its rows", "one request twice at once", crashes=1)
def _(patch: pytest.MonkeyPatch) -> None:
    def write(self: Any, vault: VaultRef, written: Any, claim: list[Wire]) -> None:
        if claim:
            # The counters come first in every transaction: a refusal must name the same place.
            self._table.transact([counters.Counters().write(vault), *claim])
        original(self, vault, written, [])

    original = DynamoStore._write
    patch.setattr(DynamoStore, "_write", write)


@mistake("a commit's reflections and marks are settled by nobody but itself", "reclaim and commit", crashes=1)
def _(patch: pytest.MonkeyPatch) -> None:
    def heal(self: DynamoStore, vault: VaultRef, batch_id: str, sources: Sequence[str] | None = None) -> None:
        if sources is not None:
            original(self, vault, batch_id, sources)

    original = DynamoStore.heal
    patch.setattr(DynamoStore, "heal", heal)


@mistake("a reopened batch is undone by nobody but itself", "reopen and a checkout of its reflections", crashes=1)
def _(patch: pytest.MonkeyPatch) -> None:
    def undo(self: DynamoStore, vault: VaultRef, header: Any, sources: Sequence[str]) -> bool:
        operation = leases.leave(vault, header["tier"] + 1, [header["sk"].removeprefix("B#")])
        self._table.transact([operation])
        return original(self, vault, header, sources)

    original = DynamoStore._undo
    patch.setattr(DynamoStore, "_undo", undo)


@mistake("a committed list still expires", "commit, its replay and the reopen", race=False)
def _(patch: pytest.MonkeyPatch) -> None:
    def flip(self: Any, vault: VaultRef, batch: Any, *arguments: Any) -> bool:
        done = original(self, vault, batch, *arguments)
        self._table.delete_all([list_key(vault, batch.id)])
        return done

    original = DynamoStore._flip
    patch.setattr(DynamoStore, "_flip", flip)
