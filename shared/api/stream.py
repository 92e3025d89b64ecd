"""The records of the change stream, and how a function says which of them it could not handle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared.domain.errors import StaleEpoch
from shared.domain.memory import VaultRef
from shared.ports.store import Change

log = logging.getLogger("strata.indexer")

StreamEvent = Mapping[str, Any]
StreamReply = dict[str, list[dict[str, str]]]

VECTORS_PER_EVENT = 64
_VAULT, _MEMORY = "V#", "M#"


def record(vault: VaultRef, change: Change) -> dict[str, Any]:
    """A change as a record of the table's stream. Consumers take nothing from it but names and order."""
    return {
        "eventID": f"{vault.vault_id}#{vault.epoch}#{change.seq}",
        "dynamodb": {
            "Keys": {
                "pk": {"S": f"{_VAULT}{vault.vault_id}#{vault.epoch}"},
                "sk": {"S": f"{_MEMORY}{change.memory_id}"},
            },
            "SequenceNumber": str(change.seq),
        },
    }


def for_each_vault(event: StreamEvent, do: Callable[[VaultRef, Sequence[Change], int], object]) -> StreamReply:
    """Give `do` every vault, its changes in order, and how many vectors may be made now; name the records that failed.

    Records of other items than memories are passed over. An event may say how many `vectors` it allows. A vault that
    was emptied meanwhile needs no index any more: that is no failure.
    """
    allowed = int(event.get("vectors", VECTORS_PER_EVENT))
    failures: list[dict[str, str]] = []
    for vault, (changes, names) in _by_vault(event).items():
        try:
            do(vault, changes, allowed)
        except StaleEpoch:
            continue
        except Exception as error:
            log.error("indexing %d changes failed: %s", len(names), type(error).__name__)
            failures.extend({"itemIdentifier": name} for name in names)
    return {"batchItemFailures": failures}


def _by_vault(event: StreamEvent) -> dict[VaultRef, tuple[list[Change], list[str]]]:
    """Changes and the identifiers of their records."""
    grouped: dict[VaultRef, tuple[list[Change], list[str]]] = {}
    for each in event.get("Records", ()):
        keys = each["dynamodb"]["Keys"]
        partition, sort = keys["pk"]["S"], keys["sk"]["S"]
        if not (partition.startswith(_VAULT) and sort.startswith(_MEMORY)):
            continue
        vault_id, _, epoch = partition.removeprefix(_VAULT).rpartition("#")
        sequence = each["dynamodb"]["SequenceNumber"]
        changes, names = grouped.setdefault(VaultRef(vault_id, int(epoch)), ([], []))
        changes.append(Change(int(sequence), sort.removeprefix(_MEMORY)))
        names.append(sequence)
    return grouped
