"""A file of 10,000 lines through the endpoint: when its words are found, and how fast its vectors follow."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

from infra.local.gateway import Gateway
from infra.local.worker import Worker
from shared import bootstrap
from shared.ports.embedder import Embedder
from shared.retrieval.chunks import chunks, embedded_text
from shared.settings import Settings
from tests.api.client import Client
from tests.bench.report import Options, Row, times
from tests.bench.search import full_text
from tests.bench.vaults import START_MS, Prose

LINES = 10_000
CHAT, LONGEST = 120, 400
"""Characters of a line: a message in a chat, and the most that so many lines may have on average."""
RARE = "quixotically"
BATCHES = (1, 64, 256)
LOOK_S = 0.1
WAIT_S = 1_200


@dataclass(frozen=True)
class Case:
    """`least` is the target in rows a second of one core; after `vectors` of them the measurement ends."""

    model: str
    characters: int
    least: int | None
    vectors: int


CASES = (
    Case("minilm-l6-v2", CHAT, 40, 1_000),
    Case("minilm-l6-v2", LONGEST, None, 500),
    Case("wordllama-256", CHAT, 3_000, LINES),
    Case("wordllama-256", LONGEST, 3_000, LINES),
)


@dataclass(frozen=True)
class Uploaded:
    """Seconds until the call returned, until a word of the last line was found, and vectors a CPU second after that."""

    returned: float
    found: float
    rate: float


@contextmanager
def serving(model: str) -> Iterator[tuple[Client, Embedder]]:
    """The embedded back end behind its gateway, its worker running and the model in memory."""
    with (
        tempfile.TemporaryDirectory(prefix="strata-bench-") as folder,
        bootstrap.Embedded(Settings(data=Path(folder), embedder=model)) as backend,
    ):
        bootstrap.activate(backend)
        embedder = backend.services.embedders[model]
        embedder.load()
        worker = Worker(backend.services)
        worker.start()
        try:
            yield Client(Gateway(backend.services, worker), backend.services), embedder
        finally:
            worker.stop()
            bootstrap.activate(None)


def file_of(texts: Sequence[str]) -> bytes:
    return "\n".join(json.dumps({"content": text}) for text in texts).encode()


def upload(client: Client, texts: Sequence[str], vectors: int) -> Uploaded:
    start = perf_counter()
    answer = client.post("/v1/memory/upload", file_of(texts), content_type="application/x-ndjson")
    returned = perf_counter() - start
    assert answer.status == 200, answer.body
    first = client.post("/v1/memory/search", {"query": RARE, "limit": 1}).json["memories"][0]
    found = perf_counter() - start
    assert first["content"] == texts[-1]
    begun, waiting = process_time(), _waiting(client)
    left = max(0, waiting - vectors)
    deadline = perf_counter() + WAIT_S
    while (still := _waiting(client)) > left:
        assert perf_counter() < deadline, "vectors do not come"
        time.sleep(LOOK_S)
    return Uploaded(returned, found, (waiting - still) / (process_time() - begun))


def _waiting(client: Client) -> int:
    waiting = client.get("/v1/memory/stats").json["waiting_vectors"]
    assert isinstance(waiting, int)
    return waiting


def model_alone(embedder: Embedder, texts: Sequence[str]) -> tuple[float, int]:
    """Passages a CPU second in the batch size that is best for the model, and that size."""
    passages = [embedded_text("user", START_MS, part) for text in texts for part in chunks(text)]

    def seconds(size: int) -> float:
        start = process_time()
        for first in range(0, len(passages), size):
            embedder.embed_documents(passages[first : first + size])
        return process_time() - start

    return max((len(passages) / seconds(size), size) for size in BATCHES)


def measure(case: Case, lines: int) -> list[Row]:
    prose = Prose()
    texts = [prose.text(case.characters) for _ in range(lines)]
    texts[-1] = f"{RARE} {texts[-1]}"[: case.characters].strip()
    start = perf_counter()
    full_text(texts).close()
    plain = perf_counter() - start
    with serving(case.model) as (client, embedder):
        alone, size = model_alone(embedder, texts[: case.vectors // 5])
        done = upload(client, texts, case.vectors)
    what = f"{lines:,} lines of {case.characters} characters, {case.model}"
    return [
        Row(
            f"{what}: the call returns, words are found",
            f"{done.returned:.1f} s, {done.found:.1f} s",
            f"{plain:.1f} s, FTS5 table of the texts",
            times(done.returned, plain),
        ),
        Row(
            f"{what}: vectors a CPU second",
            f"{done.rate:,.0f}",
            f"{alone:,.0f}, the model alone, {size} at once",
            f"{done.rate / alone:.2f}",
            "" if case.least is None else f"≥ {case.least:,}",
            None if case.least is None else done.rate >= case.least,
        ),
    ]


def run(options: Options) -> list[Row]:
    return [row for case in CASES for row in measure(case, LINES // 10 if options.quick else LINES)]


TITLE = "Upload of 10,000 lines"
NOTE = (
    "The upload endpoint behind its gateway, its worker running and the model in memory, no socket. A word of the last"
    " line is searched as soon as the call returns. Vectors a CPU second: all that the process spends from then on, on"
    " one thread, until the passages have their vectors, or the first 1,000 (of 400 characters: 500) with the default"
    " model. The baseline embeds a fifth of as many in the batch size that is best for it. The default model has no"
    " target for lines of 400 characters, which take it several times as long as a message."
)
