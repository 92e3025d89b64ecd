"""`make serve-aws`: the AWS back end as one process on this machine, with all that it starts."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from shared.adapters.opensearch.mapping import VERSION
from tests.e2e.server import ROOT, Server

PROGRAM = "infra.local.aws_emulation"
READY = re.compile(r"table: (\S+) at (http://\S+), search: (http://[^;\s]+)")


def listens(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((str(parts.hostname), int(parts.port or 80))) == 0


def started(server: Server) -> tuple[str, str, str]:
    """Table, emulator and search store, as the line that it prints says."""
    said = READY.search(server.log.read_text())
    assert said is not None, server.log.read_text()
    return said[1], said[2], said[3]


def run(program: str, *arguments: str, **variables: str) -> str:
    """What a program prints that ends well."""
    ran = subprocess.run(
        [sys.executable, "-m", program, *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_vault_lives_on_it_and_everything_ends_with_it(tmp_path: Path, key: str) -> None:
    settings = {"STRATA_EMBEDDER": "hashed-64"}
    # The node takes a while to come up beside other tests; nothing else may be running on its ports.
    with Server(tmp_path, settings, PROGRAM) as server:
        table, endpoint, search = started(server)
        assert table == "strata"
        with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
            body = {"messages": [{"role": "user", "content": text} for text in ("a heron on the weir", "an owl")]}
            told = client.post("/v1/memory/ingest", json=body)
            assert told.status_code == 202, told.text
            found = client.post("/v1/memory/search", json={"query": "herons", "limit": 1})
            assert [row["id"] for row in found.json()["memories"]] == told.json()["ids"][:1]
            assert client.get("/v1/memory/stats").json()["waiting_vectors"] == 0
            batch = client.post("/v1/memory/consolidate/checkout", json={"tier": 1}).json()
            entries = [{"text": "Two birds were seen.", "importance": 5}]
            done = client.post(
                "/v1/memory/consolidate/commit", json={"batch_id": batch["batch_id"], "entries": entries}
            )
            assert done.json()["sources_consolidated"] == 2
        indexes = httpx.get(f"{search}/_cat/indices?h=index").text
        assert "strata-hashed-64-64" in indexes
        queues = httpx.post(
            endpoint,
            headers={"X-Amz-Target": "DynamoDB_20120810.ListTables", "Content-Type": "application/x-amz-json-1.0"},
            json={},
        )
        assert table in queues.text
        # What operators run beside it, by the same settings.
        chosen = settings | {"STRATA_BACKEND": "aws", "STRATA_TABLE": table, "STRATA_SEARCH_URL": search}
        chosen["STRATA_AWS_ENDPOINT"] = endpoint
        made = run("infra.admin_key", "operator", **chosen).strip()
        keys = httpx.get(f"{server.url}/v1/keys", headers={"Authorization": f"Bearer {made}"})
        assert [each["name"] for each in keys.json()["keys"]] == ["operator"]
        assert "3 rows, 0 were missing" in run("infra.index", "reconcile", **chosen)
        rebuilt = run("infra.index", "rebuild", **chosen)
        assert "3 rows, 3 vectors made" in rebuilt
        assert f"in use now: strata-hashed-64-64-v{VERSION}-2" in rebuilt
        again = httpx.post(
            f"{server.url}/v1/memory/search",
            headers={"Authorization": f"Bearer {key}"},
            json={"query": "herons", "limit": 1},
        )
        assert [row["id"] for row in again.json()["memories"]] == told.json()["ids"][:1]
        # Two minutes of work for a developer, and none of it kept.
        assert "in memory, gone at the end" in server.log.read_text()
        assert listens(endpoint)
        assert listens(search)
    assert not listens(server.url)
    assert not listens(endpoint)
    assert not listens(search)


def test_a_search_store_that_runs_already_is_used_and_left_running(tmp_path: Path, opensearch_url: str) -> None:
    settings = {"STRATA_EMBEDDER": "hashed-64", "STRATA_SEARCH_URL": opensearch_url}
    with Server(tmp_path, settings, PROGRAM) as server:
        _, endpoint, search = started(server)
        assert search == opensearch_url
        assert httpx.get(f"{server.url}/health").status_code == 200
    assert not listens(endpoint)
    assert listens(opensearch_url)


def test_without_java_it_says_in_one_line_what_to_do(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", PROGRAM],
        cwd=ROOT,
        env={"PATH": str(tmp_path), "STRATA_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    assert line.startswith("strata cannot start: java")
    assert "STRATA_SEARCH_URL" in line
