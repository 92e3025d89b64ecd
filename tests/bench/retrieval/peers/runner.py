"""Starts each store in a process of its own, gives all of them the same work, and sums up what it took."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from infra.bundles import packages
from tests.bench.memory import resident_mib
from tests.bench.retrieval.corpus import Corpus
from tests.bench.retrieval.peers.worker import Spent

ROOT = Path(__file__).resolve().parents[4]
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
WORKER = "tests.bench.retrieval.peers.worker"
OURS = "strata"
TOP = 10


class PeerFailed(RuntimeError):
    """A store's process ended or could not be made; the message holds what it said."""


@dataclass(frozen=True)
class Peer:
    """A process that speaks the worker's protocol."""

    asked: IO[str]
    told: IO[str]

    def ready(self) -> dict[str, str]:
        """Wait until it is; the versions of its packages."""
        versions: dict[str, str] = self._line()["versions"]
        return versions

    def add(self, corpus: Corpus) -> Spent:
        told = self._ask({"op": "add", "vault": _vault(corpus), "rows": [asdict(line) for line in corpus.lines]})
        return Spent(**told["spent"])

    def search(self, corpus: Corpus, limit: int) -> tuple[list[list[str]], list[Spent]]:
        """For each question of the corpus the ids found, best first, and what it took."""
        asked = [{"text": question.text, "asked_ms": question.asked_ms} for question in corpus.questions]
        told = self._ask({"op": "search", "vault": _vault(corpus), "questions": asked, "limit": limit})
        return told["found"], [Spent(**spent) for spent in told["spent"]]

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        print(json.dumps(request), file=self.asked, flush=True)
        return self._line()

    def _line(self) -> dict[str, Any]:
        line = self.told.readline()
        if not line:
            raise PeerFailed("it ended without an answer")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _vault(corpus: Corpus) -> str:
    # Not every store takes a space in a name.
    return corpus.name.replace(" ", "-")


@dataclass
class Measured:
    """What one store needed for all corpora, and what it found. `resident` is in MiB, at the end."""

    name: str
    versions: dict[str, str]
    rows: int = 0
    ingests: list[Spent] = field(default_factory=list)
    searches: list[Spent] = field(default_factory=list)
    recalls: list[float] = field(default_factory=list)
    resident: float = 0.0

    @property
    def recall(self) -> float:
        return statistics.fmean(self.recalls)

    @property
    def row_cpu_s(self) -> float:
        """CPU seconds to store one row, the model included; mean."""
        return sum(spent.cpu_s for spent in self.ingests) / self.rows

    @property
    def row_model_s(self) -> float:
        return sum(spent.model_cpu_s for spent in self.ingests) / self.rows

    @property
    def row_outside_s(self) -> float:
        return sum(spent.outside_s for spent in self.ingests) / self.rows

    @property
    def row_wall_s(self) -> float:
        return sum(spent.wall_s for spent in self.ingests) / self.rows

    @property
    def search_cpu_s(self) -> float:
        """CPU seconds of a search, the question's embedding included; median."""
        return statistics.median(spent.cpu_s for spent in self.searches)

    @property
    def search_outside_s(self) -> float:
        return statistics.median(spent.outside_s for spent in self.searches)

    @property
    def search_wall_s(self) -> float:
        return statistics.median(spent.wall_s for spent in self.searches)


def measure(peers: Sequence[tuple[Peer, Measured]], corpora: Sequence[Corpus]) -> None:
    """All rows, then all questions. The stores take turns at each corpus, so that a slow moment hits all of them."""
    for corpus in corpora:
        for peer, measured in peers:
            measured.ingests.append(peer.add(corpus))
            measured.rows += len(corpus.lines)
    for corpus in corpora:
        for peer, measured in peers:
            found, spent = peer.search(corpus, TOP)
            measured.searches += spent
            measured.recalls += [
                len(question.relevant.intersection(ids)) / len(question.relevant)
                for question, ids in zip(corpus.questions, found, strict=True)
            ]


def run(stores: Sequence[str], corpora: Sequence[Corpus]) -> list[Measured]:
    """Measure stores, named as for the worker. Raises `PeerFailed`, and `BundleError` where packages cannot be had."""
    started: list[tuple[Peer, Measured]] = []
    pids = []
    with ExitStack() as running:
        for name in stores:
            peer, pid = running.enter_context(_process(name))
            started.append((peer, Measured(name, peer.ready())))
            pids.append(pid)
        measure(started, corpora)
        for (_, measured), pid in zip(started, pids, strict=True):
            measured.resident = resident_mib(pid)
    return [measured for _, measured in started]


@contextmanager
def _process(store: str) -> Iterator[tuple[Peer, int]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    command = [sys.executable]
    if store == OURS:
        environment["PYTHONPATH"] = str(ROOT)
    else:
        # Without `site` nothing of this environment is seen but the standard library.
        command.append("-S")
        environment["PYTHONPATH"] = os.pathsep.join((str(_packages()), str(ROOT)))
    with (
        tempfile.TemporaryDirectory(prefix="strata-bench-") as folder,
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            [*command, "-m", WORKER, store, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            env=environment,
            text=True,
            encoding="utf-8",
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Peer(process.stdin, process.stdout), process.pid
        except (PeerFailed, BrokenPipeError) as failure:
            log.seek(0)
            raise PeerFailed(f"{store}: {failure}\n{log.read()[-2000:]}") from failure


def _packages() -> Path:
    """The folder of the peers' packages, installed once for each state of their requirements and each Python."""
    python = packages.running_python()
    state = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    place = ROOT / ".cache" / "peers" / f"packages-{python}-{state}"
    if not place.is_dir():
        packages.install(REQUIREMENTS, place, python, "native", ROOT)
    return place
