"""Random requests have the same outcome in memory and in ministack."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.dynamodb.rig import Rig, memory_rig, ministack_rig, names, s, values
from tests.emulator.ministack import Ministack

PARTITIONS = count(1)
SORT_KEYS = st.sampled_from("abc")
NUMBERS = st.integers(-2, 3)
VALUES: dict[str, Any] = {"one": 1, "two": 2, "text": "x", "list": {"L": []}, "map": {"M": {}}}
UPDATES = (
    "SET x = :one",
    "SET x = :two, y = if_not_exists(y, :one)",
    "SET x = x + :one",
    "SET m = :map",
    "SET m.a = :one",
    "SET m.a = m.a + :one, x = :text",
    "SET m.b = if_not_exists(m.b, :two)",
    "SET l = list_append(if_not_exists(l, :list), :list)",
    "REMOVE x, y",
    "REMOVE m",
    "ADD y :two",
    "SET #pool = :text REMOVE #when",
    "SET #when = :text",
    "REMOVE #pool",
)
CONDITIONS = (
    "",
    "attribute_exists(pk)",
    "attribute_not_exists(pk)",
    "x = :one",
    "x < :two OR attribute_not_exists(m.a)",
    "NOT x = :one AND attribute_exists(sk)",
    "x <> :text",
    "y BETWEEN :one AND :two",
    "m = :map",
    "begins_with(#pool, :text)",
    "size(m) < :two",
    "contains(l, :text)",
)


def _expressions(**texts: str) -> dict[str, Any]:
    """The expressions with the names and values that they use, and no others."""
    given = {slot: text for slot, text in texts.items() if text}
    whole = " ".join(given.values())
    used = {name: value for name, value in values(**VALUES).items() if name in whole}
    aliases = {alias: name for alias, name in names("pool", "when").items() if alias in whole}
    more = {"ExpressionAttributeValues": used, "ExpressionAttributeNames": aliases}
    return given | {name: part for name, part in more.items() if part}


PUT = {"x": NUMBERS, "y": NUMBERS, "pool": st.sampled_from("pq"), "m": st.just({"M": {}})}
CONDITION = st.sampled_from(CONDITIONS)
WRITES = st.one_of(
    st.tuples(st.just("Put"), SORT_KEYS, st.fixed_dictionaries({}, optional=PUT), CONDITION),
    st.tuples(st.just("Update"), SORT_KEYS, st.sampled_from(UPDATES), CONDITION),
    st.tuples(st.just("Delete"), SORT_KEYS, st.none(), CONDITION),
)
TRANSACTIONS = st.lists(WRITES, min_size=1, max_size=3, unique_by=lambda write: write[1])
REQUESTS = st.lists(st.one_of(WRITES, TRANSACTIONS), max_size=12)


def _action(table: str, pk: str, write: Any) -> dict[str, Any]:
    kind, sk, what, condition = write
    key = {"pk": s(pk), "sk": s(sk)}
    if kind == "Put":
        params = {"Item": key | {name[1:]: value for name, value in values(**what).items()}}
        params |= _expressions(ConditionExpression=condition)
    elif kind == "Update":
        params = {"Key": key, **_expressions(UpdateExpression=what, ConditionExpression=condition)}
    else:
        params = {"Key": key, **_expressions(ConditionExpression=condition)}
    return {kind: {"TableName": table, "ReturnValuesOnConditionCheckFailure": "ALL_OLD", **params}}


def _outcome(rig: Rig, pk: str, request: Any) -> Any:
    """What one request, or one transaction, answered: its result, or the codes and items of its refusal."""
    try:
        if isinstance(request, list):
            actions = [_action(rig.name, pk, write) for write in request]
            rig.client.transact_write_items(TransactItems=actions)
            return "done"
        ((kind, params),) = _action(rig.name, pk, request).items()
        answer = getattr(rig.client, f"{kind.lower()}_item")(**params, ReturnValues="ALL_OLD")
        return answer.get("Attributes")
    except ClientError as error:
        response: Any = error.response
        reasons = [(reason["Code"], reason.get("Item")) for reason in response.get("CancellationReasons", ())]
        return response["Error"]["Code"], response.get("Item"), reasons


def _state(rig: Rig, pk: str) -> list[Any]:
    indexes: list[dict[str, Any]] = [{}, {"IndexName": "pool"}, {"IndexName": "timeline", "ScanIndexForward": False}]
    return [rig.query(pk=pk, **index)["Items"] for index in indexes]


def _stream(rig: Rig, position: str) -> list[Any]:
    changes = [(record["eventName"], record["dynamodb"]) for record in rig.records(position)]
    return [(name, change["Keys"], change.get("OldImage"), change.get("NewImage")) for name, change in changes]


@pytest.fixture(scope="module")
def pair(ministack: Ministack) -> tuple[Rig, Rig]:
    return memory_rig(), ministack_rig(ministack, "random")


@pytest.mark.slow
@pytest.mark.loopback
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(requests=REQUESTS)
@example(requests=[("Update", "a", "SET m.a = :one", ""), ("Put", "a", {"m": {"M": {}}}, "")])
def test_the_same_requests_have_the_same_outcomes(pair: tuple[Rig, Rig], requests: list[Any]) -> None:
    pk = f"P{next(PARTITIONS)}"
    ours, theirs = pair
    beginnings = [rig.position() for rig in pair]
    for request in requests:
        assert _outcome(ours, pk, request) == _outcome(theirs, pk, request), request
    assert _state(ours, pk) == _state(theirs, pk)
    assert _stream(ours, beginnings[0]) == _stream(theirs, beginnings[1])
    # ministack's queries of an index grow slow with the rows of all partitions.
    for item in _state(theirs, pk)[0]:
        theirs.client.delete_item(**theirs.place(item["sk"]["S"], pk))
