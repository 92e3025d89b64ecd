"""A command as a model: what is started is ended, and what was stopped is not started."""

from __future__ import annotations

import os
import select
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.consolidate import model
from infra.consolidate.model import Command, ModelError
from infra.consolidate.prompt import Turn

SECONDS = 20
ASKED = [Turn("user", "Write.")]


def test_what_was_stopped_is_not_started(tmp_path: Path) -> None:
    question = Command((sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')")).question(ASKED)

    question.stop()

    with pytest.raises(ModelError, match="stopped before it was started"):
        question.answer(SECONDS)
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_question_leaves_the_next_one_alone() -> None:
    command = Command(("cat",))
    command.question(ASKED).stop()

    assert command.question(ASKED).answer(SECONDS) == "Write."


class Pipe:
    """A named pipe. `read` waits for what is written, and gives nothing once every writer is gone."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self) -> bytes:
        assert select.select([self._end], [], [], SECONDS)[0]
        return os.read(self._end, 100)

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "pipe")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("leader", "said"),
    [
        ("exec sleep 60", "the command ended with -15"),
        ("exec sleep 60 >/dev/null", "the command ended with -15"),
        ("exit 3", "the command ended with 3"),
    ],
)
def test_what_a_command_started_is_ended_even_where_it_ignores_the_signal(
    monkeypatch: pytest.MonkeyPatch, pipe: Pipe, leader: str, said: str
) -> None:
    monkeypatch.setattr(model, "END_S", 0.2)
    child = f'(trap "" TERM; echo up; exec sleep 60) >{shlex.quote(str(pipe.path))} 2>&1 </dev/null'
    question = Command(("sh", "-c", f"{child} & {leader}")).question(ASKED)
    problems: list[str] = []

    def answer() -> None:
        try:
            question.answer(SECONDS)
        except ModelError as error:
            problems.append(str(error))

    asking = threading.Thread(target=answer)
    asking.start()
    assert pipe.read() == b"up\n"
    if "exit" in leader:
        asking.join(SECONDS)
    question.stop()

    assert pipe.read() == b""
    asking.join(SECONDS)
    assert problems == [said]
