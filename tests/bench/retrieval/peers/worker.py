"""One memory store in this process, asked over JSON lines.

    python -m tests.bench.retrieval.peers.worker STORE FOLDER

STORE is a module of this package, or ``module:variant`` where the module opens its store in several ways. A first line
on standard output says that the process is ready; then requests come on standard input, and each gets its answer:

    {"op": "add", "vault": "…", "rows": […]}
    {"op": "search", "vault": "…", "questions": [{"text": "…", "asked_ms": 0}], "limit": 10}

Rows are `Line` objects. ``add`` answers with what it took, ``search`` with the ids found and what each question took,
as `Spent` objects.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import groupby
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Protocol, TextIO

from shared.adapters.local_embedder.minilm import MiniLmEmbedder
from shared.ports.embedder import Vectors
from shared.retrieval.chunks import embedded_text
from tests.bench.retrieval.corpus import Line

AT_ONCE = 100


class Store(Protocol):
    """A memory store with several vaults. A module of a store has `PACKAGES` and `opened(folder, embedder)`."""

    def add(self, vault: str, rows: Sequence[Line]) -> None:
        """Store rows of one session. When it returns they can be found, and are on disk if the store has one."""
        ...

    def search(self, vault: str, question: str, asked_ms: int, limit: int) -> list[str]:
        """The ids of the best rows, best first. `asked_ms` is when the question is asked."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Spent:
    """Seconds. `cpu_s` counts every thread of the process; `model_cpu_s` is the part within the embedding model."""

    wall_s: float
    cpu_s: float
    model_cpu_s: float

    @property
    def outside_s(self) -> float:
        """CPU outside the model."""
        return self.cpu_s - self.model_cpu_s


class MeteredModel(MiniLmEmbedder):
    """The default model; adds up the CPU seconds spent in it."""

    cpu_s = 0.0

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        start = process_time()
        try:
            return super().embed_documents(texts)
        finally:
            self.cpu_s += process_time() - start


class Stopwatch:
    """Runs from its making. `model_cpu` tells the CPU seconds spent in the model so far."""

    def __init__(self, model_cpu: Callable[[], float]) -> None:
        self._model_cpu = model_cpu
        self._start = self._now()

    def _now(self) -> tuple[float, float, float]:
        return perf_counter(), process_time(), self._model_cpu()

    def spent(self) -> Spent:
        return Spent(*(end - start for end, start in zip(self._now(), self._start, strict=True)))


def said(row: Line) -> str:
    """A row as text that tells who spoke and when: the words that this project embeds for it."""
    return embedded_text(row.role, row.date_ms, row.text)


def batches(rows: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Rows as a client sends them: those of one session that follow each other, at most `AT_ONCE`."""
    for _, session in groupby(rows, key=lambda row: row.session):
        together = list(session)
        for first in range(0, len(together), AT_ONCE):
            yield together[first : first + AT_ONCE]


def serve(store: Store, model_cpu: Callable[[], float], asked: TextIO, told: TextIO) -> None:
    """Answer until the requests end."""
    for line in asked:
        print(json.dumps(_answer(store, model_cpu, json.loads(line))), file=told, flush=True)


def _answer(store: Store, model_cpu: Callable[[], float], request: dict[str, Any]) -> dict[str, Any]:
    vault = request["vault"]
    if request["op"] == "add":
        rows = [Line(**row) for row in request["rows"]]
        watch = Stopwatch(model_cpu)
        for batch in batches(rows):
            store.add(vault, batch)
        return {"spent": asdict(watch.spent())}
    found, spent = [], []
    for question in request["questions"]:
        watch = Stopwatch(model_cpu)
        found.append(store.search(vault, question["text"], question["asked_ms"], request["limit"]))
        spent.append(asdict(watch.spent()))
    return {"found": found, "spent": spent}


def offline(event: str, _: tuple[object, ...]) -> None:
    """An audit hook: no store may reach for a network, telemetry and downloads included."""
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise ConnectionRefusedError("the bench runs offline")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", help="a module of this package, or module:variant")
    parser.add_argument("folder", type=Path, help="where the store keeps its data")
    chosen = parser.parse_args()
    # What libraries print must not come between the answers.
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.addaudithook(offline)
    name, _, variant = chosen.store.partition(":")
    module = importlib.import_module(f"tests.bench.retrieval.peers.{name}")
    model = MeteredModel()
    model.load()
    store: Store = getattr(module, variant or "opened")(chosen.folder, model)
    print(json.dumps({"versions": {name: metadata.version(name) for name in module.PACKAGES}}), file=told, flush=True)
    try:
        serve(store, lambda: model.cpu_s, sys.stdin, told)
    finally:
        store.close()


if __name__ == "__main__":
    main()
