"""The user's own model: an OpenAI-compatible endpoint, or a command that reads a prompt and prints an answer."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Protocol

from infra.consolidate import wire
from infra.consolidate.prompt import Turn, as_one_text
from shared.domain.retry import Again, Patience, asked_wait
from shared.domain.text import est_tokens
from shared.settings import without_client_keys

TRIES = 3
# A token of ordinary text has some four bytes, as the estimate says, and hardly ever twice as many.
FEWEST_READ = 2
END_S = 2.0
LOOK_S = 0.02


class ModelError(Exception):
    """The model gave no answer. `final`: the same will happen with every batch."""

    def __init__(self, problem: str, final: bool = False) -> None:
        super().__init__(problem)
        self.final = final


class Question(Protocol):
    def answer(self, within_s: float) -> str:
        """The answer to the last turn; to be called once. Raises `ModelError`."""
        ...

    def stop(self) -> None:
        """Nobody waits for the answer any more. May be called from another thread, before `answer` and after it."""
        ...


class Model(Protocol):
    def question(self, turns: Sequence[Turn]) -> Question: ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`url` is the base, such as ``https://host/v1``, or the whole address. Nothing optional is asked of the model."""

    url: str
    model: str
    key: str | None = field(default=None, repr=False)

    def question(self, turns: Sequence[Turn]) -> Question:
        return _Posted(self, turns)


class _Posted:
    """A request that nobody waits for any more is left to itself."""

    def __init__(self, endpoint: Endpoint, turns: Sequence[Turn]) -> None:
        self._endpoint = endpoint
        self._turns = turns

    def answer(self, within_s: float) -> str:
        patience = Patience(time.monotonic, time.sleep, random.random, first_s=1.0, longest_s=20.0, tries=TRIES)
        messages = [{"role": turn.role, "content": turn.text} for turn in self._turns]
        body = {"model": self._endpoint.model, "messages": messages}
        try:
            text, read = patience.insist(lambda left: self._once(body, left), time.monotonic() + within_s)
        except Again as again:
            raise ModelError(f"the model's endpoint fails: {again.reason}") from again
        _check_context(self._turns, read)
        return text

    def stop(self) -> None:
        return None

    def _once(self, body: Mapping[str, object], left_s: float) -> tuple[str, int | None]:
        base, key = self._endpoint.url, self._endpoint.key
        url = base if base.endswith("/chat/completions") else f"{base}/chat/completions"
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        try:
            reply = wire.send("POST", url, headers, body, max(left_s, 0.1))
        except wire.Lost as lost:
            raise Again(str(lost)) from lost
        if reply.passing:
            raise Again(reply.shown(), asked_wait(reply.headers.get("Retry-After")))
        if not 200 <= reply.status < 300:
            raise ModelError(f"the model's endpoint refuses: {reply.shown()}; {_advice(reply.status)}", final=True)
        try:
            answer = reply.json()
        except ValueError:
            answer = None
        text = _content(answer)
        if text is None:
            raise ModelError("the model's endpoint did not answer as /chat/completions does; look at --model-url")
        return text, _prompt_tokens(answer)


def _check_context(turns: Sequence[Turn], read: int | None) -> None:
    """Refuse an answer to a prompt that was cut: some endpoints do that without a word.

    What was left out would count as consolidated. Counts of later turns are not looked at: endpoints that keep the
    beginning of a conversation may count only what is new.
    """
    told = est_tokens(turns[0].text)
    if len(turns) == 1 and read and read * FEWEST_READ < told:
        raise ModelError(
            f"the model read only {read:,} of about {told:,} tokens: give it a longer context, or the batch a smaller "
            "--max-tokens",
            final=True,
        )


def _prompt_tokens(answer: object) -> int | None:
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    count = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    return count if type(count) is int else None


def _advice(status: int) -> str:
    if status in (401, 403):
        return "look at STRATA_MODEL_KEY or --model-key-file"
    if status in (400, 413, 422):
        return "if the batch is too long for the model, give a smaller --max-tokens"
    return "look at --model-url and --model"


def _content(answer: object) -> str | None:
    """The text of the first choice; of a list of parts, their texts."""
    try:
        content = answer["choices"][0]["message"]["content"]  # type: ignore[index]
    except (LookupError, TypeError):
        return None
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


@dataclass(frozen=True, slots=True)
class Command:
    """Runs without a shell, in a process group of its own, with neither key in its environment."""

    words: tuple[str, ...]

    def question(self, turns: Sequence[Turn]) -> Question:
        return _Started(self.words, as_one_text(turns))


class _Started:
    """One run of a command."""

    def __init__(self, words: Sequence[str], prompt: str) -> None:
        self._words = words
        self._prompt = prompt.encode("utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        # Held while the process is started: whoever stops it finds it, or finds that it will never be.
        self._starting = threading.Lock()

    def answer(self, within_s: float) -> str:
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        feeder = threading.Thread(target=_feed, args=(process.stdin, self._prompt), daemon=True)
        feeder.start()
        with process.stdout:
            said = process.stdout.read(wire.MAX_ANSWER_BYTES + 1)
            if len(said) > wire.MAX_ANSWER_BYTES:
                self.stop()
                raise ModelError("the command prints without end")
        process.wait()
        feeder.join(END_S)
        if process.returncode != 0:
            raise ModelError(f"the command ended with {process.returncode}")
        try:
            return said.decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError("what the command printed is not UTF-8") from None

    def _start(self) -> subprocess.Popen[bytes]:
        with self._starting:
            if self._stopped:
                raise ModelError("the command was stopped before it was started")
            try:
                self._process = subprocess.Popen(
                    self._words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=without_client_keys(),
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise ModelError(f"the command cannot be started: {reason}; look at --command", final=True) from error
            return self._process

    def stop(self) -> None:
        """End the command and what it started: SIGTERM, and SIGKILL for what is still there after two seconds."""
        with self._starting:
            self._stopped = True
            process = self._process
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + END_S
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            # The command may be gone and what it started may not.
            while _lives(process.pid):
                if time.monotonic() >= until:
                    break
                time.sleep(LOOK_S)
            else:
                return


def _lives(group: int) -> bool:
    """Whether a process of this group is left. Its number belongs to nobody else as long as there is one."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _feed(stdin: IO[bytes], prompt: bytes) -> None:
    # A command need not read all of its prompt.
    with contextlib.suppress(OSError, ValueError):
        stdin.write(prompt)
    with contextlib.suppress(OSError, ValueError):
        stdin.close()
