"""What the table says when it does not do what was asked, and what that means for whoever asked."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, EndpointConnectionError

from shared.adapters.dynamodb.values import Item, from_item
from shared.domain.errors import StrataError, Unavailable, VaultFull

BUSY = "busy"
CONDITION = "ConditionalCheckFailed"
CONFLICT = "TransactionConflict"
FULL = ("ItemCollectionSizeLimitExceeded", "ItemCollectionSizeLimitExceededException")
UNDONE = frozenset((
    CONFLICT, "TransactionConflictException", "TransactionInProgressException", "ThrottlingException",
    "ThrottlingError", "Throttling", "ProvisionedThroughputExceededException", "ProvisionedThroughputExceeded",
    "RequestLimitExceeded", "LimitExceededException",
))  # fmt: skip
"""What DynamoDB says when it did nothing and the same request can succeed a moment later."""
AGAIN = UNDONE | {"InternalServerError", "InternalFailure", "ServiceUnavailable"}
"""The same, and what it says when it may have done what was asked."""
SERVER_FAILED = 500
BUSY_SECONDS = 3


def _codes(error: ClientError) -> tuple[str, list[str], list[Any]]:
    """The code of the whole request, those of its operations (itself, where it has none), and their reasons."""
    response: Any = error.response
    code = response.get("Error", {}).get("Code", "")
    reasons = response.get("CancellationReasons") or []
    return code, [reason.get("Code") or "None" for reason in reasons] or [code], reasons


def failed_conditions(error: ClientError, insist: bool) -> tuple[list[int], dict[int, Item]] | None:
    """Places of the operations whose conditions failed, and what was found there; None for any other refusal.

    Without `insist`, a conflict with another transaction is a failed condition at no place.
    """
    code, codes, reasons = _codes(error)
    if code == "ConditionalCheckFailedException":
        return [0], {}
    failed = [place for place, each in enumerate(codes) if each == CONDITION]
    if not failed and (insist or CONFLICT not in codes):
        return None
    return failed, {place: from_item(reasons[place]["Item"]) for place in failed if reasons[place].get("Item")}


def refusal(error: ClientError) -> StrataError:
    """What to answer when trying again did not help. Raises what trying again cannot help against."""
    code, codes, _ = _codes(error)
    response: Any = error.response
    if any(each in FULL for each in codes):
        raise VaultFull(
            "This vault is full: a vault holds at most 10 GB.",
            hint="Export it, delete what is not needed, or start another vault.",
        ) from error
    if any(each in AGAIN for each in codes):
        return busy() if CONFLICT in codes or code in AGAIN else unreachable(error)
    if response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= SERVER_FAILED:
        # Whatever stands before the table speaks in its name, and need not know its words.
        return unreachable(error)
    raise Unavailable(
        f"The table refused a request: {code}.",
        code="storage_unavailable",
        hint="Check the table's name, its region and the permissions of this function.",
        retry_after=30,
    ) from error


def undone(error: ClientError | BotoCoreError) -> bool:
    """Whether the request surely had no effect: it was turned away, or never reached the table."""
    if isinstance(error, ClientError):
        return all(code == "None" or code in UNDONE for code in _codes(error)[1])
    return isinstance(error, (ConnectTimeoutError, EndpointConnectionError))


def busy() -> Unavailable:
    return Unavailable(
        "The vault is busy: others kept changing it meanwhile.",
        code=BUSY,
        hint="Send the request again.",
        retry_after=BUSY_SECONDS,
    )


def unreachable(error: Exception) -> Unavailable:
    failure = Unavailable(
        "The table does not answer.", code="storage_unavailable", hint="Send the request again.", retry_after=2
    )
    failure.__cause__ = error
    return failure
