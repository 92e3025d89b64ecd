"""Who may work on a vault, and when the next run may begin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.consolidate.lock import Busy, Lock

URL = "http://127.0.0.1:8787"
NOON = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def lock(folder: Path, clock: Clock, url: str = URL, key: str = "mk_demo") -> Lock:
    return Lock(folder / "state", url, key, clock)


def test_one_run_at_a_time(tmp_path: Path, clock: Clock) -> None:
    first, second = lock(tmp_path, clock), lock(tmp_path, clock)
    first.take(0)

    with pytest.raises(Busy, match=f"locked: another run .process {os.getpid()}.*remove {second.path}"):
        second.take(0)
    first.leave(completed=False)
    second.take(0)


def test_each_vault_has_its_own(tmp_path: Path, clock: Clock) -> None:
    held = lock(tmp_path, clock)
    held.take(0)

    lock(tmp_path, clock, key="mk_other").take(0)
    lock(tmp_path, clock, url="https://memory.example").take(0)
    with pytest.raises(Busy):
        lock(tmp_path, clock, key="mk_demo:write").take(0)


def test_the_file_is_private_and_holds_no_key(tmp_path: Path, clock: Clock) -> None:
    held = lock(tmp_path, clock, key="mk_sesame")
    held.take(0)

    assert held.path.stat().st_mode & 0o777 == 0o600
    assert held.path.parent.stat().st_mode & 0o777 == 0o700
    assert "sesame" not in held.path.read_text() + str(held.path)


def test_a_run_that_is_silent_for_20_minutes_is_replaced_and_learns_it(tmp_path: Path, clock: Clock) -> None:
    first, second = lock(tmp_path, clock), lock(tmp_path, clock)
    first.take(0)
    clock.now += 19 * 60
    with pytest.raises(Busy):
        second.take(0)
    clock.now += 60
    second.take(0)

    with pytest.raises(Busy, match="another one has taken its place"):
        first.beat()
    first.leave(completed=True)
    with pytest.raises(Busy, match="locked"):
        lock(tmp_path, clock).take(0)


def test_signs_of_life_keep_the_lock(tmp_path: Path, clock: Clock) -> None:
    first, second = lock(tmp_path, clock), lock(tmp_path, clock)
    first.take(0)
    for _ in range(60):
        clock.now += 60
        first.beat()

    with pytest.raises(Busy, match="locked"):
        second.take(0)


def test_the_lock_of_a_process_that_is_gone_is_free(tmp_path: Path, clock: Clock) -> None:
    script = (
        "import sys, time; from pathlib import Path; from infra.consolidate.lock import Lock;"
        f"Lock(Path(sys.argv[1]), {URL!r}, 'mk_demo', lambda: {NOON}).take(0)"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "state")], cwd=root, check=True)
    holder = json.loads(lock(tmp_path, clock).path.read_text())["holder"]
    assert holder["pid"] != os.getpid()

    lock(tmp_path, clock).take(0)


def test_of_another_machine_only_the_signs_of_life_are_known(tmp_path: Path, clock: Clock) -> None:
    held = lock(tmp_path, clock)
    held.take(0)
    record = json.loads(held.path.read_text())
    record["holder"] |= {"host": "elsewhere", "pid": 2**22 + 1}
    held.path.write_text(json.dumps(record))

    with pytest.raises(Busy, match="locked"):
        lock(tmp_path, clock).take(0)
    clock.now += 20 * 60
    lock(tmp_path, clock).take(0)


def test_cooldown_begins_with_a_completed_run(tmp_path: Path, clock: Clock) -> None:
    run = lock(tmp_path, clock)
    run.take(1800)
    run.leave(completed=False)
    run.take(1800)
    run.leave(completed=True)

    clock.now += 10 * 60
    with pytest.raises(Busy, match=r"cooling down.*10 min ago.*in 20 min.*--force"):
        run.take(1800)
    run.take(0)
    run.leave(completed=False)
    clock.now += 20 * 60
    run.take(1800)


def test_a_clock_that_was_set_back_does_not_cool_for_ever(tmp_path: Path, clock: Clock) -> None:
    run = lock(tmp_path, clock)
    run.take(1800)
    run.leave(completed=True)
    clock.now -= 86_400

    run.take(1800)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"holder": 7, "completed": "x"}',
        '{"holder": {"pid": "x", "beat": 1}}',
        '{"holder": {"pid": -1, "beat": 1e300}}',
        "\ufffd",
        "[" * 200_000,
        '{"holder": ' + '{"pid":' * 900 + "1" + "}" * 900 + "}",
        '{"completed": 1' + "0" * 400 + "}",
        '{"completed": NaN}',
        f'{{"completed": {NOON}, "padding": "{" " * 5_000}"}}',
        *(
            f'{{"holder": {{"pid": {pid}, "host": HOST, "beat": {beat}}}}}'
            for pid, beat in [
                *(("PID", beat) for beat in ("NaN", "Infinity", "-Infinity", "1" + "0" * 400, NOON + 61, "null")),
                *((pid, NOON) for pid in ("1" + "0" * 400, 2**40, 2**31, 0, "true", 1.5)),
            ]
        ),
    ],
    ids=range(25),
)
def test_a_file_that_makes_no_sense_stops_nobody(tmp_path: Path, clock: Clock, content: str) -> None:
    run = lock(tmp_path, clock)
    run.path.parent.mkdir()
    here = content.replace("PID", str(os.getpid())).replace("HOST", json.dumps(os.uname().nodename))
    run.path.write_text(here, "utf-8")

    run.take(1800)
    run.leave(completed=True)
    assert json.loads(run.path.read_text()) == {"holder": None, "completed": NOON}


def test_a_sign_of_life_may_lie_a_minute_ahead(tmp_path: Path, clock: Clock) -> None:
    lock(tmp_path, clock).take(0)
    clock.now -= 60

    with pytest.raises(Busy, match="locked"):
        lock(tmp_path, clock).take(0)
    clock.now -= 1
    lock(tmp_path, clock).take(0)


def test_what_is_no_file_is_said_and_not_waited_for(tmp_path: Path, clock: Clock) -> None:
    run = lock(tmp_path, clock)
    run.path.parent.mkdir()
    os.mkfifo(run.path)
    with pytest.raises(OSError, match="it is no ordinary file"):
        run.take(0)

    run.path.unlink()
    run.path.mkdir()
    with pytest.raises(IsADirectoryError):
        run.take(0)


def test_a_file_that_cannot_be_written_ends_no_run(tmp_path: Path, clock: Clock) -> None:
    run = lock(tmp_path, clock)
    run.take(1800)
    run.path.unlink()
    run.path.mkdir()
    clock.now += 60

    run.beat()
    run.leave(completed=True)
