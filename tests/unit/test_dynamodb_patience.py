"""How long a verb on DynamoDB goes on when others are in its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from shared.adapters.dynamodb.table import (
    FIRST_PAUSE,
    FIRST_TRIES,
    LONGEST_PAUSE,
    LONGEST_TRIES,
    UTMOST_PAUSE,
    ConditionFailed,
    Patience,
    Table,
)
from shared.domain.errors import Unavailable

VERB, REQUEST = 14.0, 5.0
KEY = ("pk", "sk")


class Time:
    """A clock that only sleeping and working move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def patience(self, seconds: float) -> Patience:
        return Patience(seconds, lambda: self.now, self.sleep, lambda: 1.0)


class Refusing:
    """Every request takes `seconds` and is refused."""

    def __init__(self, time: Time, seconds: float, *codes: str) -> None:
        self._time, self._seconds, self._codes = time, seconds, codes
        self.requests = 0

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def send(**request: Any) -> Any:
            self.requests += 1
            self._time.now += self._seconds
            code, *reasons = self._codes
            response: Any = {"Error": {"Code": code}, "CancellationReasons": [{"Code": each} for each in reasons]}
            raise ClientError(response, operation)

        return send


def table(time: Time, client: Any = None) -> Table:
    return Table(client, "table", time.patience(REQUEST), time.patience(VERB))


def test_pauses_double_up_to_the_longest() -> None:
    time = Time()
    list(time.patience(10).pauses())
    doubled = [FIRST_PAUSE * 2**number for number in range(6)]
    assert time.pauses[:6] == pytest.approx(doubled)
    assert set(time.pauses[6:]) == {LONGEST_PAUSE}
    assert time.now <= 10


@pytest.mark.parametrize(
    ("slow", "first", "longest"),
    [
        (0.001, FIRST_PAUSE, LONGEST_PAUSE),
        (0.05, 0.05 * FIRST_TRIES, LONGEST_PAUSE),
        (0.5, 0.5 * FIRST_TRIES, 0.5 * LONGEST_TRIES),
        (5.0, UTMOST_PAUSE, UTMOST_PAUSE),
    ],
)
def test_the_slower_a_round_the_longer_the_pauses_after_it(slow: float, first: float, longest: float) -> None:
    time = Time()
    rounds = Table(Refusing(time, 0), "table", time.patience(REQUEST), time.patience(1000)).rounds()
    for _, number in zip(range(12), rounds, strict=False):
        # The slowest round counts, not the last one.
        time.now += slow if number == 0 else 0.0
    assert time.pauses[0] == pytest.approx(first)
    assert max(time.pauses) == pytest.approx(longest)


def test_rounds_within_a_round_end_with_it() -> None:
    time = Time()
    losing = table(time)

    def verb() -> None:
        for _ in losing.rounds():
            for _ in losing.rounds():
                time.now += 0.4

    with pytest.raises(Unavailable) as busy:
        verb()
    assert (busy.value.code, bool(busy.value.retry_after)) == ("busy", True)
    assert time.now <= VERB


def test_a_verb_begins_with_time_of_its_own_after_one_that_ended() -> None:
    time = Time()
    losing = table(time)
    for _ in losing.rounds():
        time.now += VERB - 1
        break
    with pytest.raises(Unavailable):
        list(losing.rounds())
    assert time.now > 2 * VERB - 1 - LONGEST_PAUSE * 2


def test_a_request_that_is_in_the_way_of_others_goes_on_for_as_long_as_its_verb() -> None:
    time = Time()
    client = Refusing(time, 0.1, "TransactionCanceledException", "TransactionConflict", "None")
    losing = table(time, client)

    def verb() -> None:
        for _ in losing.rounds():
            losing.transact([{"Put": {"Item": {}}}, {"Put": {"Item": {}}}])

    with pytest.raises(Unavailable, match="busy"):
        verb()
    assert VERB - 2 * LONGEST_PAUSE < time.now <= VERB + 0.1


def test_a_request_outside_of_any_verb_is_given_up_earlier() -> None:
    time = Time()
    with pytest.raises(Unavailable, match="busy"):
        table(time, Refusing(time, 0.1, "ThrottlingException")).get(KEY)
    assert time.now <= REQUEST + 0.1


def test_a_transaction_that_does_not_insist_takes_a_conflict_for_a_failed_condition() -> None:
    time = Time()
    client = Refusing(time, 0.1, "TransactionCanceledException", "None", "TransactionConflict")
    with pytest.raises(ConditionFailed) as failed:
        table(time, client).transact([{"Put": {"Item": {}}}, {"Put": {"Item": {}}}], insist=False)
    assert (client.requests, failed.value.places, time.pauses) == (1, frozenset(), [])
