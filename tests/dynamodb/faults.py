"""Errors that a table can be told to answer with: what a real one does under load and on a bad network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ConnectionClosedError, ConnectTimeoutError, ReadTimeoutError

from tests.dynamodb.errors import Refused, cancelled

Params = Mapping[str, Any]
When = Callable[[str, Params], bool]
URL = "http://memory.invalid"
SLOW = "The level of configured provisioned throughput for the table was exceeded."


@dataclass
class Fault:
    """`error` makes what is raised, instead of the effect or `after` it; with `unprocessed` a batch leaves that many
    of its items undone. It strikes `times` times, `hits` counts them.
    """

    when: When
    times: int
    error: Callable[[str, Params], Exception] | None = None
    after: bool = False
    unprocessed: int = 0
    hits: int = 0

    def strikes(self, op: str, params: Params) -> bool:
        if self.hits >= self.times or not self.when(op, params):
            return False
        self.hits += 1
        return True


def _refusal(code: str, message: str) -> Callable[[str, Params], Exception]:
    return lambda op, params: Refused(code, message)


def _in_transaction(code: str, message: str, alone: str) -> Callable[[str, Params], Exception]:
    """In a transaction its first item's reason, otherwise an exception of its own named `alone`."""

    def error(op: str, params: Params) -> Exception:
        if not op.startswith("transact_"):
            return Refused(alone, message)
        reasons: list[dict[str, str]] = [{"Code": "None"} for _ in params["TransactItems"]]
        reasons[0] = {"Code": code, "Message": message}
        return cancelled(reasons)

    return error


BEFORE: Mapping[str, Callable[[str, Params], Exception]] = {
    "throttled": _refusal("ProvisionedThroughputExceededException", SLOW),
    "slow_down": _refusal("ThrottlingException", "Rate of requests exceeds the allowed throughput."),
    "server_error": _refusal("InternalServerError", "Internal server error"),
    "in_progress": _refusal("TransactionInProgressException", "The transaction with this token is in progress."),
    "conflict": _in_transaction(
        "TransactionConflict", "Transaction is ongoing for the item", "TransactionConflictException"
    ),
    "throttled_item": _in_transaction("ThrottlingError", SLOW, "ThrottlingException"),
    "collection_full": _in_transaction(
        "ItemCollectionSizeLimitExceeded",
        "Item collection size limit of 10 GB exceeded",
        "ItemCollectionSizeLimitExceededException",
    ),
    "unreachable": lambda op, params: ConnectTimeoutError(endpoint_url=URL),
    "request_lost": lambda op, params: ReadTimeoutError(endpoint_url=URL),
}
AFTER: Mapping[str, Callable[[str, Params], Exception]] = {
    "reply_lost": lambda op, params: ReadTimeoutError(endpoint_url=URL),
    "connection_closed": lambda op, params: ConnectionClosedError(endpoint_url=URL),
}


def fault(kind: str, when: When, times: int) -> Fault:
    """`kind` is a name of `BEFORE` (no effect) or `AFTER` (the effect stays, the answer is lost)."""
    if kind in BEFORE:
        return Fault(when, times, BEFORE[kind])
    return Fault(when, times, AFTER[kind], after=True)
