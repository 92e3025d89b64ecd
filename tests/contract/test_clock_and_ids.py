"""The clock and the names it helps to make."""

import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from shared.adapters.system.clock import RandomIds, SystemClock


class StandingClock(SystemClock):
    """Says what it is told to."""

    def __init__(self, *readings: int) -> None:
        self._readings = list(readings)

    def now_ms(self) -> int:
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]


def test_the_clock_shows_the_time() -> None:
    before = time.time() * 1000
    assert before - 1 <= SystemClock().now_ms() <= time.time() * 1000 + 1


def test_memory_ids_are_version_seven_and_grow() -> None:
    ids = RandomIds().memory_ids(3000)
    assert ids == sorted(set(ids))
    for text in ids:
        assert str(uuid.UUID(text)) == text
        assert uuid.UUID(text).version == 7
        assert uuid.UUID(text).variant == uuid.RFC_4122


def test_memory_ids_carry_the_moment() -> None:
    (memory_id,) = RandomIds(StandingClock(1_770_000_000_123)).memory_ids(1)
    assert uuid.UUID(memory_id).int >> 80 == 1_770_000_000_123


def test_memory_ids_grow_while_the_clock_stands_or_falls_back() -> None:
    ids = RandomIds(StandingClock(2000, 2000, 1000, 500, 500)).memory_ids(500)
    assert ids == sorted(set(ids))


def test_threads_never_share_a_name() -> None:
    ids = RandomIds()
    with ThreadPoolExecutor(8) as pool:
        calls = list(pool.map(lambda _: ids.memory_ids(200), range(40)))
    names = [name for call in calls for name in call]
    assert len(set(names)) == len(names)
    assert all(call == sorted(call) for call in calls)


def test_other_names_have_their_form() -> None:
    ids = RandomIds()
    for make, form in (
        (ids.batch_id, r"cb_[0-9a-f]{32}"),
        (ids.key, r"mk_[A-Za-z0-9_-]{32}"),
        (ids.vault_id, r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    ):
        made = {make() for _ in range(100)}
        assert len(made) == 100
        assert all(re.fullmatch(form, name) for name in made)
