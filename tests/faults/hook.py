"""Faults of DynamoDB, injected into a real boto3 client at the moment it sends a request.

A `Hook` counts the requests of its client. It lets an `Act` take the place of one of them, or of all from one on: the
act answers in the service's name, loses an answer, does only part of a batch, ends the process, or meddles with the
table before the request goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

CONTENT = "application/x-amz-json-1.0"
PREFIX = "com.amazonaws.dynamodb.v20120810#"
TRANSACTION, BATCH_GET, BATCH_WRITE = "TransactWriteItems", "BatchGetItem", "BatchWriteItem"
SINGLE_WRITES = ("PutItem", "UpdateItem")
WRITES = (*SINGLE_WRITES, TRANSACTION, BATCH_WRITE)
BATCHES = (BATCH_GET, BATCH_WRITE)


class Died(BaseException):
    """The process ended here. Not an `Exception`: nothing in it gets the chance to handle that."""


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> list[bytes]:
        return [self._body]


class Sending:
    """One request on its way."""

    def __init__(self, prepared: AWSPreparedRequest, deliver: Callable[[AWSPreparedRequest], AWSResponse]) -> None:
        self._prepared, self._deliver = prepared, deliver
        target = prepared.headers["X-Amz-Target"]
        self.operation = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        self.url: str = prepared.url
        self.body: dict[str, Any] = json.loads(prepared.body)

    def deliver(self) -> AWSResponse:
        """Do it, and have its answer."""
        return self._deliver(self._prepared)

    def deliver_as(self, body: Mapping[str, Any]) -> AWSResponse:
        """Do something like it instead."""
        self._prepared.body = json.dumps(body).encode()
        self._prepared.headers["Content-Length"] = str(len(self._prepared.body))
        return self.deliver()

    def answered(self, status: int, body: bytes) -> AWSResponse:
        return AWSResponse(self.url, status, {"Content-Type": CONTENT, "x-amzn-RequestId": "injected"}, _Raw(body))

    def refused(self, code: str, status: int = 400, **more: object) -> AWSResponse:
        return self.answered(status, json.dumps({"__type": PREFIX + code, "message": code, **more}).encode())


Act = Callable[[Sending], AWSResponse | None]
"""Returns the answer, raises what the client shall see, or returns None to let the request go on."""


class Hook:
    """The requests of one client from the last `aim` on: how many there were, and which operations."""

    def __init__(self, client: Any) -> None:
        self.operations: list[str] = []
        self.struck = 0
        self._act: Act | None = None
        self._place = 0
        self._always = False
        self._session = client._endpoint.http_session
        client.meta.events.register("before-send.dynamodb", self._before_send)

    def aim(self, act: Act | None = None, place: int = 0, *, always: bool = False) -> None:
        """`act` stands in for the request number `place` (from 0), with `always` for every later one as well."""
        self._act, self._place, self._always = act, place, always
        self.operations = []
        self.struck = 0

    def aside(self, act: Act, does: Callable[[], object]) -> None:
        """Let another process that uses the same client meet `act` at each of its requests, and end by it."""
        kept = self._act, self._place, self._always, self.operations, self.struck
        self.aim(act, always=True)
        try:
            does()
        except Died:
            pass
        finally:
            self._act, self._place, self._always, self.operations, self.struck = kept

    def _before_send(self, request: AWSPreparedRequest, **_: object) -> AWSResponse | None:
        sending = Sending(request, self._session.send)
        number = len(self.operations)
        self.operations.append(sending.operation)
        if self._act is None or number < self._place or (number > self._place and not self._always):
            return None
        self.struck += 1
        return self._act(sending)


class Fault:
    """`acts` are ways in which it shows; requests get them in turn. It strikes only `operations`, if any are named."""

    def __init__(self, name: str, *acts: Act, only: Sequence[str] = ()) -> None:
        self.name, self._acts, self._only = name, acts, only

    def at(self, place: int) -> Act:
        return self._acts[place % len(self._acts)]

    def strikes(self, operation: str) -> bool:
        return not self._only or operation in self._only


def refusal(code: str, status: int = 400) -> Act:
    return lambda sending: sending.refused(code, status)


def cancellation(code: str) -> Act:
    """A transaction that failed for its last operation's sake."""

    def act(sending: Sending) -> AWSResponse | None:
        if sending.operation != TRANSACTION:
            return None
        reasons = [{"Code": "None"} for _ in sending.body["TransactItems"]]
        reasons[-1] = {"Code": code, "Message": code}
        return sending.refused("TransactionCanceledException", CancellationReasons=reasons)

    return act


def no_answer(sending: Sending) -> AWSResponse:
    raise ReadTimeoutError(endpoint_url=sending.url)


def lost_answer(sending: Sending) -> AWSResponse:
    sending.deliver()
    raise ReadTimeoutError(endpoint_url=sending.url)


def cut_answer(sending: Sending) -> AWSResponse:
    sending.deliver()
    raise ConnectionClosedError(endpoint_url=sending.url)


def no_connection(sending: Sending) -> AWSResponse:
    raise EndpointConnectionError(endpoint_url=sending.url)


def bare_503(sending: Sending) -> AWSResponse:
    """What a proxy says on the service's behalf."""
    return sending.answered(503, b"<html>Service Unavailable</html>")


def partly(share: Callable[[int], int]) -> Act:
    """A batch of n of which only the first `share(n)` are done."""

    def act(sending: Sending) -> AWSResponse | None:
        if sending.operation not in BATCHES:
            return None
        ((name, asked),) = sending.body["RequestItems"].items()
        reading = sending.operation == BATCH_GET
        wanted = asked["Keys"] if reading else asked
        done = share(len(wanted))
        left = {name: {**asked, "Keys": wanted[done:]} if reading else wanted[done:]} if wanted[done:] else {}
        unprocessed = "UnprocessedKeys" if reading else "UnprocessedItems"
        if not done:
            nothing: dict[str, Any] = {"Responses": {}} if reading else {}
            return sending.answered(200, json.dumps({**nothing, unprocessed: left}).encode())
        first = {**asked, "Keys": wanted[:done]} if reading else wanted[:done]
        answer = json.loads(sending.deliver_as({"RequestItems": {name: first}}).content)
        return sending.answered(200, json.dumps({**answer, unprocessed: left}).encode())

    return act


def dies_before(sending: Sending) -> AWSResponse:
    raise Died


def dies_after(sending: Sending) -> AWSResponse:
    sending.deliver()
    raise Died


def meanwhile(meddle: Callable[[], object]) -> Act:
    """Something else happens to the table, then the request goes on."""

    def act(sending: Sending) -> None:
        meddle()

    return act


THROTTLED = tuple(
    refusal(code) for code in ("ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded")
)
ITEM_THROTTLED = tuple(cancellation(code) for code in ("ThrottlingError", "ProvisionedThroughputExceeded"))
PASSING = (
    Fault("throttled", *THROTTLED),
    Fault("item throttled", *ITEM_THROTTLED, only=(TRANSACTION,)),
    Fault("transaction conflict", cancellation("TransactionConflict"), only=(TRANSACTION,)),
    Fault("conflict with a transaction", refusal("TransactionConflictException"), only=SINGLE_WRITES),
    Fault("transaction in progress", refusal("TransactionInProgressException"), only=(TRANSACTION,)),
    Fault("server error", refusal("InternalServerError", 500), bare_503),
    Fault("not done, no answer", no_connection, no_answer),
    Fault("done, answer lost", lost_answer, cut_answer, only=WRITES),
    Fault("half unprocessed", partly(lambda count: (count + 1) // 2), only=BATCHES),
    Fault("all but one unprocessed", partly(lambda count: 1), only=BATCHES),
    Fault("all unprocessed", partly(lambda count: 0), only=BATCHES),
)
"""What another try mends."""
DEATHS = (Fault("death before", dies_before), Fault("death after", dies_after, only=WRITES))
LASTING = (
    Fault("throttled for good", *THROTTLED),
    Fault("conflicts for good", cancellation("TransactionConflict"), only=(TRANSACTION,)),
    Fault("unreachable for good", no_connection, no_answer, bare_503),
    Fault("answers lost for good", lost_answer, cut_answer, only=WRITES),
    Fault("all unprocessed for good", partly(lambda count: 0), only=BATCHES),
)
"""What lasts longer than any patience."""
