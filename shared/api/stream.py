"""The records of the table's change stream: what each asks for, and which of them have to come again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import chain
from traceback import extract_tb
from typing import Any

from shared.domain.errors import StrataError
from shared.domain.memory import VaultRef
from shared.ports.dead_letters import DeadLetter, Kind, Task
from shared.ports.store import Change
from shared.ports.telemetry import DEAD_LETTERS, INDEX_LAG, VAULTS_WAITING, Facts
from shared.usecases.following import Outcome, follow, sweep
from shared.usecases.services import Services

log = logging.getLogger("strata.indexer")

StreamEvent = Mapping[str, Any]
StreamReply = dict[str, list[dict[str, str]]]

VECTORS_PER_EVENT = 2_000
RESERVE_MS = 30_000
"""What a function keeps back of its time for the last batch of vectors, which a remote model may take 20 s for."""
PATIENCE_MS = {Kind.INDEX: 72_000_000, Kind.PURGE: 72_000_000, Kind.SETTLE: 120_000, Kind.PUBLISH: 120_000}
"""How old a record may get by trying again. The stream keeps 24 hours; a single batch must not hold up everything."""
_PARTITION, _MEMORY, _BATCH, _WRITE, _VAULT, _LIST = "V#", "M#", "B#", "A#", "V", "#S0"
_COMMITTED = "committed"


def record(vault: VaultRef, change: Change) -> dict[str, Any]:
    """A change as a record of the table's stream. Consumers take nothing from it but names and order."""
    return {
        "eventID": f"{vault.vault_id}#{vault.epoch}#{change.seq}",
        "dynamodb": {
            "Keys": {
                "pk": {"S": f"{_PARTITION}{vault.vault_id}#{vault.epoch}"},
                "sk": {"S": f"{_MEMORY}{change.memory_id}"},
            },
            "SequenceNumber": str(change.seq),
        },
    }


def task_of(each: Mapping[str, Any]) -> Task | None:
    """What a record asks for; None for what nobody has to react to. Raises for what is no record of the table."""
    change = each["dynamodb"]
    partition, sort = change["Keys"]["pk"]["S"], change["Keys"]["sk"]["S"]
    if not partition.startswith(_PARTITION):
        return None
    image = change.get("NewImage", {})
    if sort == _VAULT:
        # Its partition has no epoch.
        vault_id = partition.removeprefix(_PARTITION)
        return Task(Kind.PURGE, VaultRef(vault_id, int(image["purge"]["N"]))) if "purge" in image else None
    vault_id, _, epoch = partition.removeprefix(_PARTITION).rpartition("#")
    if not vault_id:
        return None
    vault = VaultRef(vault_id, int(epoch))
    if sort.startswith(_MEMORY):
        # A row that stays shows an index nothing new: its batch's mark changes no answer of a search.
        modified = each.get("eventName") == "MODIFY"
        return None if modified else Task(Kind.INDEX, vault, sort.removeprefix(_MEMORY))
    if sort.startswith(_BATCH) and not sort.endswith(_LIST):
        unfinished = image.get("state", {}).get("S") == _COMMITTED or "undoing" in image
        return Task(Kind.SETTLE, vault, sort.removeprefix(_BATCH)) if unfinished else None
    if sort.startswith(_WRITE) and image:
        return Task(Kind.PUBLISH, vault, sort.removeprefix(_WRITE))
    return None


def consume(services: Services, event: StreamEvent, context: object = None) -> StreamReply:
    """Do what the records ask and name those that have to come again.

    A record that can never be handled goes to the dead letters, with the reason, and counts as handled; so does one
    that failed for too long. An event may say how many `vectors` of a vault may be made; one without records makes
    vectors for whoever waits for them.
    """
    with services.telemetry.invocation("indexer", "", context) as facts:
        try:
            if "Records" in event:
                return _consumed(services, event, context, facts)
            waiting = facts["waiting"] = sweep(services, _vectors(event), _in_time(context))
            services.telemetry.record(VAULTS_WAITING, waiting)
            return {"batchItemFailures": []}
        except StrataError as error:
            facts["code"] = error.code
            raise
        except Exception as error:
            facts["code"] = StrataError.code
            places = " < ".join(f"{each.name}:{each.lineno}" for each in reversed(extract_tb(error.__traceback__)))
            log.error("the indexer failed: %s at %s", type(error).__name__, places)
            # The platform writes what leaves a function into the log, and a foreign error may quote a memory.
            raise StrataError(f"The indexer failed: {type(error).__name__}.") from None


def _consumed(services: Services, event: StreamEvent, context: object, facts: Facts) -> StreamReply:
    names: dict[Task, list[Mapping[str, Any]]] = {}
    failures: list[Mapping[str, Any]] = []
    for each in event["Records"]:
        try:
            task = task_of(each)
        except (LookupError, ValueError, TypeError, AttributeError):
            log.error("a record is none of this table: %s", str(each.get("eventID"))[:100])
            continue
        if task is not None:
            names.setdefault(task, []).append(each)
    outcome = follow(services, list(names), _vectors(event), _in_time(context))
    now_ms = services.clock.now_ms()
    _give_up_old(outcome, names, now_ms)
    ages = [now_ms - written for each in chain(*names.values()) if (written := _written_ms(each)) is not None]
    if ages:
        services.telemetry.record(INDEX_LAG, max(0, *ages) / 1000)
    facts |= {"records": len(event["Records"]), "failed": len(outcome.failed), "given_up": len(outcome.given_up)}
    try:
        services.dead_letters.send(outcome.given_up)
        if outcome.given_up:
            services.telemetry.record(DEAD_LETTERS, len(outcome.given_up))
    except StrataError as error:
        log.error("%d dead letters could not be sent: %s", len(outcome.given_up), error.code)
        outcome.failed += [letter.task for letter in outcome.given_up]
    for task in outcome.failed:
        failures += names.get(task, ())
    return {"batchItemFailures": [{"itemIdentifier": each["dynamodb"]["SequenceNumber"]} for each in failures]}


def _give_up_old(outcome: Outcome, names: Mapping[Task, list[Mapping[str, Any]]], now_ms: int) -> None:
    """Move tasks that failed for too long over to the dead letters."""
    for task in list(outcome.failed):
        ages = [now_ms - written for each in names[task] if (written := _written_ms(each)) is not None]
        if ages and max(ages) > PATIENCE_MS[task.kind]:
            outcome.failed.remove(task)
            outcome.given_up.append(DeadLetter(task, f"failed for {max(ages) // 1000} seconds"))


def _written_ms(each: Mapping[str, Any]) -> int | None:
    """When a record was written: the event source says it in seconds, a client of the stream as a date."""
    moment = each["dynamodb"].get("ApproximateCreationDateTime")
    if isinstance(moment, datetime):
        return int(moment.timestamp() * 1000)
    return int(moment * 1000) if isinstance(moment, int | float) else None


def _vectors(event: StreamEvent) -> int:
    return int(event.get("vectors", VECTORS_PER_EVENT))


def _in_time(context: object) -> Callable[[], bool]:
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    return (lambda: True) if remaining is None else (lambda: remaining() > RESERVE_MS)
