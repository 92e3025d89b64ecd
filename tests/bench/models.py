"""What each local model adds to ingest, and how long it takes to embed a question."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from shared import bootstrap
from shared.adapters.local_embedder.minilm import MiniLmEmbedder
from shared.adapters.local_embedder.static import StaticEmbedder
from shared.ports.embedder import Embedder, Vectors
from shared.settings import Settings
from shared.usecases import keys
from shared.usecases.indexing import catch_up, fill_vectors
from shared.usecases.ingest import NewMessage, ingest
from tests.bench.report import Options, Row, at_most, ms, times
from tests.bench.vaults import START_MS, Prose

MESSAGES = 25
CHARACTERS = 300
QUESTIONS = 60
QUERY_MS = 15.0


class Watched:
    """A model whose CPU seconds and passages are counted."""

    def __init__(self, model: Embedder) -> None:
        self._model = model
        self.name, self.dimension = model.name, model.dimension
        self.noise, self.nearness = model.noise, model.nearness
        self.seconds, self.passages = 0.0, 0

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        start = process_time()
        vectors = self._model.embed_documents(texts)
        self.seconds += process_time() - start
        self.passages += len(texts)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        return self._model.embed_query(text)

    def ready(self) -> bool:
        return self._model.ready()

    def load(self) -> None:
        self._model.load()


@dataclass(frozen=True)
class Ingested:
    """Of one message: wall seconds, CPU seconds, and the model's part of those."""

    wall: float
    cpu: float
    model: float


def ingested(model: Embedder, requests: int) -> Ingested:
    watched, prose = Watched(model), Prose()
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
        settings = Settings(data=Path(folder), embedder=model.name)
        with bootstrap.Embedded(settings, {model.name: watched}) as backend:
            wall = cpu = 0.0
            for number in range(requests):
                messages = [NewMessage("user", prose.text(CHARACTERS), START_MS + number) for _ in range(MESSAGES)]
                caller = keys.authenticate(backend.services, "mk_bench")
                began, began_cpu = perf_counter(), process_time()
                ingest(backend.services, caller, messages, None)
                catch_up(backend.services, caller.vault)
                while fill_vectors(backend.services, caller.vault, MESSAGES):
                    pass
                wall, cpu = wall + perf_counter() - began, cpu + process_time() - began_cpu
    rows = requests * MESSAGES
    assert watched.passages == rows
    return Ingested(wall / rows, cpu / rows, watched.seconds / rows)


def minilm_alone(model: MiniLmEmbedder, question: str) -> Callable[[], object]:
    tokenizer, session = model._loaded()
    ids = np.array([tokenizer.encode(question).ids], np.int64)
    fed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return lambda: session.run(None, fed)


def static_alone(model: StaticEmbedder, question: str) -> Callable[[], object]:
    tokenizer, _ = model._loaded()
    return lambda: tokenizer.encode(question, add_special_tokens=False)


def query_row(model: Embedder, alone: Callable[[str], Callable[[], object]], what: str) -> Row:
    prose = Prose()
    ours: list[float] = []
    bare: list[float] = []
    for number in range(QUESTIONS + 3):
        question = prose.question()
        work = alone(question)
        start = process_time()
        model.embed_query(question)
        middle = process_time()
        work()
        end = process_time()
        if number >= 3:
            ours.append((middle - start) * 1000)
            bare.append((end - middle) * 1000)
    p50, bare_p50 = statistics.median(ours), statistics.median(bare)
    target, met = at_most(p50, QUERY_MS)
    return Row(
        f"{model.name}: embedding a question, CPU p50",
        ms(p50 / 1000),
        f"{ms(bare_p50 / 1000)}, {what}",
        times(p50, bare_p50),
        f"{target} ms",
        met,
    )


def ingest_row(model: Embedder, requests: int) -> Row:
    done = ingested(model, requests)
    return Row(
        f"{model.name}: ingest, {MESSAGES} messages of {CHARACTERS} characters a request, with vectors",
        f"{1 / done.wall:,.0f} messages/s, {ms(done.cpu)} CPU a message",
        f"{ms(done.model)} CPU a message, the model's part",
        times(done.cpu, done.model),
    )


def run(options: Options) -> list[Row]:
    minilm, static = MiniLmEmbedder(), StaticEmbedder()
    minilm.load()
    static.load()
    return [
        ingest_row(minilm, 4 if options.quick else 20),
        query_row(minilm, lambda question: minilm_alone(minilm, question), "session.run alone"),
        ingest_row(static, 20 if options.quick else 100),
        query_row(static, lambda question: static_alone(static, question), "the tokenizer alone"),
    ]


TITLE = "Ingest with each local model"
NOTE = (
    f"The use case with the real model on one thread, words and vectors included, no HTTP: each request stores"
    f" {MESSAGES} messages, synced to disk, and waits for their vectors. Prose of invented words, which tokenizers cut"
    " into more pieces than plain English. Questions of about ten words, every one new."
)
