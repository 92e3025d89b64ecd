"""Trying again: the waits, the number of calls, and when another try is not worth it."""

from __future__ import annotations

import pytest

from shared.domain.retry import Again, Patience, asked_wait


class Time:
    def __init__(self, draw: float = 0.0) -> None:
        self.now = 50.0
        self.slept: list[float] = []
        self.draw = draw

    def patience(self) -> Patience:
        return Patience(lambda: self.now, self.sleep, lambda: self.draw)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Flaky:
    """Fails as listed, then answers; remembers the seconds it was told were left."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.left: list[float] = []

    def __call__(self, left_s: float) -> str:
        self.left.append(left_s)
        if self.failures:
            raise self.failures.pop(0)
        return "answer"


def again(count: int, asked_s: float | None = None) -> list[Exception]:
    return [Again(f"failure {number}", asked_s) for number in range(1, count + 1)]


def test_an_answer_is_given_at_once() -> None:
    time = Time()
    call = Flaky()
    assert time.patience().insist(call, 80.0) == "answer"
    assert (call.left, time.slept) == ([30.0], [])


@pytest.mark.parametrize(("draw", "waits"), [(0.0, [0.2, 0.4, 0.8]), (1.0, [0.1, 0.2, 0.4]), (0.5, [0.15, 0.3, 0.6])])
def test_waits_double_and_chance_takes_at_most_half(draw: float, waits: list[float]) -> None:
    time = Time(draw)
    call = Flaky(*again(3))
    assert time.patience().insist(call, 60.0) == "answer"
    assert time.slept == pytest.approx(waits)
    assert call.left == pytest.approx([10 - sum(waits[:number]) for number in range(4)])


def test_no_wait_is_longer_than_the_longest() -> None:
    time = Time()
    patience = Patience(lambda: time.now, time.sleep, lambda: 0.0, first_s=1.0, longest_s=3.0, tries=9)
    patience.insist(Flaky(*again(5)), 1000.0)
    assert time.slept == [1.0, 2.0, 3.0, 3.0, 3.0]
    time.slept.clear()
    Patience(lambda: time.now, time.sleep, lambda: 0.0, tries=9).insist(Flaky(*again(7)), 1000.0)
    assert time.slept == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


def test_tries_are_counted() -> None:
    time = Time()
    call = Flaky(*again(20))
    with pytest.raises(Again, match="failure 6"):
        time.patience().insist(call, 1000.0)
    assert len(call.left) == 6
    assert len(time.slept) == 5


def test_a_wait_that_does_not_end_in_time_is_not_begun() -> None:
    time = Time()
    call = Flaky(*again(20))
    with pytest.raises(Again, match="failure 3"):
        time.patience().insist(call, 51.4)
    assert time.slept == [0.2, 0.4]
    with pytest.raises(Again, match="only"):
        time.patience().insist(Flaky(Again("only")), time.now + 0.2)
    assert len(time.slept) == 2


@pytest.mark.parametrize(("asked", "waits"), [(7.5, [7.5, 7.5]), (0.3, [0.3, 0.4]), (0.0, [0.2, 0.4])])
def test_what_is_asked_for_is_the_least_wait(asked: float, waits: list[float]) -> None:
    time = Time()
    time.patience().insist(Flaky(*again(2, asked)), 1000.0)
    assert time.slept == waits


def test_an_asked_wait_beyond_the_end_gives_up_with_it() -> None:
    time = Time()
    with pytest.raises(Again) as given_up:
        time.patience().insist(Flaky(*again(1, 31.0)), 80.0)
    assert (given_up.value.reason, given_up.value.asked_s, time.slept) == ("failure 1", 31.0, [])
    assert str(given_up.value) == "failure 1"


def test_other_errors_pass() -> None:
    time = Time()
    with pytest.raises(KeyError):
        time.patience().insist(Flaky(KeyError("no")), 80.0)
    assert time.slept == []


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0), ("0", 0.0), ("1.5", 1.5), (" 3 ", 3.0), ("3600", 3600.0), ("3601", 3600.0), ("-1", None),
        ("nan", None), ("inf", None), ("", None), (None, None), ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)  # fmt: skip
def test_retry_after_headers(header: str | None, seconds: float | None) -> None:
    assert asked_wait(header) == seconds
