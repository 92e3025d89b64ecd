"""What the server keeps resident when it has nothing to do."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import httpx

from tests.bench.report import Options, Row
from tests.e2e.server import Server

LIMIT_MIB = 350
KEY = {"Authorization": "Bearer mk_bench"}
MESSAGES = 20
LOAD_SECONDS = 60
SETTLE_SECONDS = 3


def resident_mib(pid: int) -> float:
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], check=True, capture_output=True, text=True)
    return int(told.stdout) / 1024


def await_vectors(http: httpx.Client) -> None:
    """Until every row has its vector: the model is loaded and has worked."""
    deadline = time.monotonic() + LOAD_SECONDS
    while http.get("/v1/memory/stats", headers=KEY).json()["waiting_vectors"]:
        assert time.monotonic() < deadline, "the model did not load"
        time.sleep(0.1)


def run(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
        with Server(Path(folder)) as server, httpx.Client(base_url=server.url, timeout=30) as http:
            messages = [
                {"role": "user", "content": f"Note {n}: the harbour meeting was moved."} for n in range(MESSAGES)
            ]
            http.post("/v1/memory/ingest", headers=KEY, json={"messages": messages}).raise_for_status()
            await_vectors(http)
            http.post("/v1/memory/search", headers=KEY, json={"query": "when is the meeting?"}).raise_for_status()
            time.sleep(SETTLE_SECONDS)
            loaded = resident_mib(server.pid)
        with Server(Path(folder) / "light", {"STRATA_EMBEDDER": "hashed-64"}) as server:
            time.sleep(SETTLE_SECONDS)
            bare = resident_mib(server.pid)
    return [
        Row(
            "idle server, default model loaded, resident",
            f"{loaded:.0f} MiB",
            f"{bare:.0f} MiB, without a model",
            f"{loaded / bare:.2f}×",
            f"≤ {LIMIT_MIB} MiB",
            loaded <= LIMIT_MIB,
        )
    ]


TITLE = "Memory"
NOTE = "The real server after 20 messages and one search; the baseline has not loaded a model."
