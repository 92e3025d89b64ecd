"""The DynamoDB back end under the scheduler: a table in memory, and workers that pause before every request."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from shared.adapters.dynamodb.layout import SCHEMA
from shared.adapters.dynamodb.store import DynamoStore
from shared.adapters.dynamodb.stream import StreamFeed
from shared.adapters.dynamodb.table import Client, Patience, Table
from shared.domain.debt import Debt
from shared.domain.errors import StaleEpoch, Unavailable
from shared.domain.memory import Memory, VaultRef
from shared.ports.store import Appended, Idempotency, SortKey, Totals
from tests.dynamodb.table import MemoryTable
from tests.simulation.scheduler import Footprint, Scheduler
from tests.simulation.world import VAULT, Call, Violation

NAME = "simulated"
ROUNDS = 60
TOKENS = count(1)
INDEXES = ("pool", "when", "turn")
READS = frozenset(("get_item", "batch_get_item", "query"))


def _name(key: Mapping[str, Any]) -> str:
    return f"{key['pk']['S']} {key['sk']['S']}"


def _noticed(key: Mapping[str, Any]) -> Iterable[str]:
    """What a query may go by to meet the item: its kind, any of its indexes, or the whole partition."""
    where, sort = key["pk"]["S"], key["sk"]["S"]
    yield f"{where} *"
    yield f"{where} {sort[:2]}*"
    if sort.startswith("M#"):
        yield from (f"{where} @{index}" for index in INDEXES)


def _queried(request: Mapping[str, Any]) -> str:
    values = request["ExpressionAttributeValues"]
    where, low, high = (values[name]["S"] for name in (":pk", ":low", ":high"))
    if "IndexName" in request:
        return f"{where} @{request['IndexName']}"
    return f"{where} {low[:2]}*" if low[:1] == high[:1] else f"{where} *"


def footprint(operation: str, request: Mapping[str, Any]) -> Footprint:
    if operation == "get_item":
        return Footprint(reads=frozenset((_name(request["Key"]),)))
    if operation == "batch_get_item":
        return Footprint(reads=frozenset(map(_name, request["RequestItems"][NAME]["Keys"])))
    if operation == "query":
        return Footprint(reads=frozenset((_queried(request),)))
    keys = list(_written(operation, request))
    noticed = (name for key in keys for name in _noticed(key))
    # A condition looks at what it guards: the names stand on both sides.
    names = frozenset(map(_name, keys))
    return Footprint(names, names, frozenset(noticed))


def _written(operation: str, request: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    if operation == "transact_write_items":
        for each in request["TransactItems"]:
            ((_, one),) = each.items()
            yield one.get("Key") or one["Item"]
    elif operation == "batch_write_item":
        for each in request["RequestItems"][NAME]:
            yield each["DeleteRequest"]["Key"]
    else:
        yield request.get("Key") or request["Item"]


class Trouble:
    """Draws conflicts, throttling and lost answers, each with the given chance a request."""

    def __init__(self, seed: int, chance: float) -> None:
        self._draw, self._chance = random.Random(seed), chance
        self.met = 0

    def before(self, operation: str, request: Mapping[str, Any]) -> None:
        if not self._strikes():
            return
        if operation == "transact_write_items" and self._draw.random() < 0.7:
            reasons = [{"Code": "TransactionConflict"}] + [{"Code": "None"}] * (len(request["TransactItems"]) - 1)
            raise _refused("TransactionCanceledException", operation, CancellationReasons=reasons)
        raise _refused("ThrottlingException", operation)

    def after(self) -> None:
        if self._strikes():
            raise ReadTimeoutError(endpoint_url="http://memory.invalid")

    def _strikes(self) -> bool:
        struck = self._draw.random() < self._chance
        self.met += struck
        return struck


def _refused(code: str, operation: str, **more: Any) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": ""}, **more}, operation)


class Pausing:
    """A client whose every request waits for its turn, and may get into trouble then."""

    def __init__(self, table: MemoryTable, scheduler: Scheduler, trouble: Trouble) -> None:
        self._table, self._scheduler, self._trouble = table, scheduler, trouble

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def send(**request: Any) -> Any:
            kind = "snapshot" if operation in READS else "publish"
            self._scheduler.pause(kind, NAME, footprint(operation, request))  # type: ignore[arg-type]
            if self._scheduler.current is None:
                return getattr(self._table, operation)(**request)
            self._trouble.before(operation, request)
            answer = getattr(self._table, operation)(**request)
            self._trouble.after()
            return answer

        return send


class Current:
    """The vault's epoch, as the directory keeps it."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


class GatedStore(DynamoStore):
    """A store whose callers looked at the vault's record before: nobody names an epoch that is not there yet."""

    current: Current

    def _check(self, vault: VaultRef) -> None:
        if vault.epoch > self.current.epoch:
            raise StaleEpoch("not the content of now")

    def append(self, vault: VaultRef, rows: Sequence[Memory], once: Idempotency | None, now_ms: int) -> Appended:
        self._check(vault)
        return super().append(vault, rows, once, now_ms)

    def export(self, vault: VaultRef, after: SortKey | None, limit: int) -> tuple[Memory, ...]:
        self._check(vault)
        return super().export(vault, after, limit)


class Tries(Patience):
    """A number of tries instead of a time: nobody sleeps here."""

    def pauses(self) -> Iterator[None]:
        return iter([None] * ROUNDS)


def _purged(vault_id: str, below_epoch: int) -> None:
    """Nobody waits for it."""


class DynamoSite:
    vault = VAULT

    def __init__(self, table: MemoryTable, client: Client, current: Current) -> None:
        tries = Tries(0.0)
        self.feed = StreamFeed(table.streams(), NAME)
        self.store = GatedStore(
            Table(client, NAME, tries, tries, lambda: f"token-{next(TOKENS)}"), self.feed.note, _purged
        )
        self.store.current = current

    def bump(self) -> object:
        self.store.current.epoch += 1
        return self.store.current.epoch

    def finish_purges(self) -> None:
        self.store.purge(VAULT.vault_id, self.store.current.epoch)

    def close(self) -> None:
        pass


class DynamoStage:
    """A table in memory, filled anew for every schedule. `chance` is that of trouble with a request, by `seed`."""

    def __init__(self, seed: int = 0, chance: float = 0.0) -> None:
        self._before: Sequence[Call] = ()
        self.trouble = Trouble(seed, chance)
        self._table = MemoryTable()
        self._current = Current(VAULT.epoch)

    def prepare(self, before: Sequence[Call]) -> None:
        self._before = before

    def begin(self, scheduler: Scheduler, drops: bool) -> DynamoSite:
        self._table, self._current = MemoryTable(), Current(VAULT.epoch)
        self._table.create_table(TableName=NAME, **SCHEMA)
        site = DynamoSite(self._table, self._table, self._current)
        for call in self._before:
            call.answer(site)
        return DynamoSite(self._table, Pausing(self._table, scheduler, self.trouble), self._current)

    def rest(self, batch_ids: Sequence[str]) -> DynamoSite:
        """The change stream goes on with whatever somebody left unfinished."""
        site = DynamoSite(self._table, self._table, self._current)
        for item in self._table.snapshot(NAME):
            vault_id, epoch = item["pk"]["S"].removeprefix("V#").rsplit("#", 1)
            vault, (kind, _, name) = VaultRef(vault_id, int(epoch)), item["sk"]["S"].partition("#")
            try:
                if kind == "B" and "#" not in name:
                    site.store.heal(vault, name)
                elif kind == "A":
                    site.store.finish(vault, name)
            except StaleEpoch:
                continue
            except Unavailable as error:
                raise Violation(f"{kind}#{name} cannot be finished: {error.message}") from error
        return site

    def said(self, answer: tuple[str, object]) -> tuple[str, object]:
        """Debt is read after the fact, and what a vault holds in several reads: both may be of a later moment."""
        kind, value = answer
        if isinstance(value, Totals):
            return kind, (value.memories, value.tokens, value.debt)
        if isinstance(value, tuple):
            return kind, tuple(replace(row, consolidated_by=None, position=None) for row in value)
        return kind, replace(value, debt=Debt()) if hasattr(value, "debt") else value  # type: ignore[type-var]
