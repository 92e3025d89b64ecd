"""Vaults to measure on: the real embedded back end in a folder of its own, and rows to fill it with."""

from __future__ import annotations

import sqlite3
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shared.adapters.sqlite.directory import SqliteDirectory, SqliteUsage
from shared.adapters.sqlite.files import VaultFiles
from shared.adapters.sqlite.index import SqliteIndex
from shared.adapters.sqlite.outbox import Outbox
from shared.adapters.sqlite.store import SqliteStore
from shared.adapters.system.clock import RandomIds, SystemClock
from shared.adapters.system.letters import MemoryLetters
from shared.adapters.system.telemetry import Silent
from shared.domain.keys import SCOPES
from shared.domain.memory import Memory, VaultRef
from shared.domain.text import est_tokens
from shared.ports.directory import KeyRecord
from shared.ports.embedder import Vectors
from shared.usecases.indexing import catch_up, fill_vectors
from shared.usecases.services import Caller, Policy, Services

START_MS = 1_700_000_000_000
STEP_MS = 60_000
APPEND = 10_000
SESSION_ROWS = 40

COMMON = (
    "the a of to and in is that it for was on with as i you we they what did do how when my your not have be at this"
    " but from or had he she his her are were about so if there their would could all one can out up"
)
QUESTIONS = (
    "what did i say about the {} when we were at the {}",
    "when did you and i have the {} with my {}",
    "how would they do it if the {} was not in the {}",
    "who was there with her when he could not find the {} or the {}",
    "what is the {} that she had for his {} and from whom did it come",
)


Statement = tuple[str, list[tuple[object, ...]]]
"""SQL and the rows of values it was given."""


class RecordingConnection(sqlite3.Connection):
    """Keeps what it was asked to run while `recorded` is a list, so that the same statements can be run again."""

    recorded: list[Statement] | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if self.recorded is not None:
            self.recorded.append((sql, [tuple(parameters)]))
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        rows = list(parameters)
        if self.recorded is not None:
            self.recorded.append((sql, [tuple(row) for row in rows]))
        return super().executemany(sql, rows)


class InstantEmbedder:
    """Random unit vectors that depend on nothing but the text: the work of a model, without its time."""

    name = "minilm-l6-v2"
    dimension = 384
    noise = 0.3
    nearness = 0.5

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        drawn = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(self.dimension, dtype=np.float32)
        unit: npt.NDArray[np.float32] = drawn / np.linalg.norm(drawn)
        return unit

    def ready(self) -> bool:
        return True

    def load(self) -> None:
        return


class Bench:
    """The embedded back end on a fresh data folder. Connections are kept, so that what they do can be counted."""

    def __init__(self, folder: Path) -> None:
        self.connections: list[RecordingConnection] = []
        self.directory = SqliteDirectory(folder)
        self.files = VaultFiles(folder, self.directory, self._connect)
        outbox = Outbox(self.files)
        clock = SystemClock()
        self.ids = RandomIds(clock)
        embedder = InstantEmbedder()
        self.store = SqliteStore(self.files, outbox, self.directory.purged)
        self.index = SqliteIndex(self.files, lambda vault: embedder.dimension, 1 << 32)
        self._usage = SqliteUsage(folder)
        self.services = Services(
            store=self.store,
            directory=self.directory,
            index=self.index,
            embedders={embedder.name: embedder},
            feed=outbox,
            usage=self._usage,
            dead_letters=MemoryLetters(),
            telemetry=Silent(),
            clock=clock,
            ids=self.ids,
            policy=Policy(default_model=embedder.name),
        )

    def _connect(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, timeout=20, isolation_level=None, check_same_thread=False, factory=RecordingConnection
        )
        self.connections.append(connection)
        return connection

    def caller(self) -> Caller:
        """The owner of a new, empty vault that is bound to the model."""
        vault_id = self.ids.vault_id()
        key = KeyRecord(f"key-{vault_id}", vault_id, vault_id, "bench", SCOPES, START_MS)
        self.directory.add(key)
        self.directory.bind_model(self.directory.vault(vault_id).ref, self.services.policy.default_model)
        return Caller(key, self.directory.vault(vault_id), SCOPES, "mk_…")

    def vault(self) -> VaultRef:
        return self.caller().vault

    def rows(self, texts: Sequence[str], first: int = 0, session_rows: int | None = None) -> list[Memory]:
        """Raw rows a minute apart; every `session_rows` rows begin a session, or none has one."""
        return [
            Memory(
                id=memory_id,
                tier=1,
                text=text,
                role="user" if number % 2 else "assistant",
                date_ms=START_MS + number * STEP_MS,
                tokens=est_tokens(text),
                created_ms=START_MS,
                session_id=None if session_rows is None else f"session {number // session_rows}",
            )
            for number, (memory_id, text) in enumerate(
                zip(self.ids.memory_ids(len(texts)), texts, strict=True), start=first
            )
        ]

    def fill(self, count: int, text: str) -> VaultRef:
        """A vault with `count` equal rows, written by the store itself and not indexed."""
        vault = self.vault()
        for first in range(0, count, APPEND):
            self.store.append(vault, self.rows([text] * min(APPEND, count - first), first), None, START_MS)
        return vault

    def fill_indexed(self, caller: Caller, texts: Sequence[str]) -> None:
        """Write rows in sessions of `SESSION_ROWS`, with their words and vectors."""
        vault = caller.vault
        for first in range(0, len(texts), APPEND):
            rows = self.rows(texts[first : first + APPEND], first, SESSION_ROWS)
            self.store.append(vault, rows, None, START_MS)
        catch_up(self.services, vault)
        while fill_vectors(self.services, vault, APPEND):
            pass

    def close(self) -> None:
        self.files.close()
        self._usage.close()
        self.directory.database.close()


@contextmanager
def bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
        made = Bench(Path(folder))
        try:
            yield made
        finally:
            made.close()


class Prose:
    """Invented sentences and questions: half function words, half words of a Zipf vocabulary. Same seed, same text."""

    def __init__(self, seed: int = 7, vocabulary: int = 30_000) -> None:
        self._random = np.random.default_rng(seed)
        self._vocabulary = [self._word(number) for number in range(vocabulary)]
        shares = np.cumsum(1.0 / np.arange(1, vocabulary + 1))
        self._shares = shares / shares[-1]
        self._function = COMMON.split()

    @staticmethod
    def _word(number: int) -> str:
        syllables = ("ba", "ke", "ri", "mo", "tu", "la", "ne", "so", "vi", "du", "pa", "ge", "lo", "mi", "fa", "zu")
        word = ""
        rest = number + 16
        while rest:
            word += syllables[rest % 16]
            rest //= 16
        return word + "n"

    def text(self, characters: int) -> str:
        """Sentences of together at most `characters` characters, and hardly fewer."""
        words = characters // 4
        drawn = np.searchsorted(self._shares, self._random.random(words)).tolist()
        function = self._random.integers(len(self._function) * 2, size=words).tolist()
        mixed = [
            self._function[common] if common < len(self._function) else self._vocabulary[rare]
            for common, rare in zip(function, drawn, strict=True)
        ]
        sentences = " ".join(
            " ".join(mixed[start : start + 12]).capitalize() + "." for start in range(0, len(mixed), 12)
        )
        return sentences[:characters]

    def question(self) -> str:
        pattern = QUESTIONS[int(self._random.integers(len(QUESTIONS)))]
        return pattern.format(*(self._vocabulary[n] for n in self._random.integers(2_000, size=2))) + "?"
