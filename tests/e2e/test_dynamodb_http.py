"""Many connections at once to the gateway on DynamoDB, on one vault, until nothing is left to consolidate."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.e2e.dynamodb_vault import create
from tests.e2e.server import Server
from tests.e2e.test_kill import check_lineage, exported, free_port
from tests.emulator import ministack

KEY = "mk_crowd"
CONNECTIONS = 200
BATCHES = 30
BATCH_ROWS = 2
TEXT = "a line of the log. " * 100
"""Two of them fill the smallest budget of a checkout."""
LONGEST_SECONDS = 20
LOOK_AGAIN_SECONDS = (0.5, 3.0)
PROGRAM = "tests.e2e.dynamodb_gateway"


class Crowd:
    """`counts` sums up answers by verb and status, `slowest` is the longest time that one took, in seconds."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self.counts: Counter[str] = Counter()
        self.slowest = 0.0
        self.failures: list[BaseException] = []

    def run(self) -> None:
        threads = [threading.Thread(target=self._connection, args=(number,)) for number in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _connection(self, number: int) -> None:
        draw = random.Random(number)
        try:
            with closing(HTTPConnection(str(self._address.hostname), self._address.port, timeout=60)) as connection:
                while self._consolidate(connection, draw):
                    pass
        except BaseException as failure:
            self.failures.append(failure)

    def _consolidate(self, connection: HTTPConnection, draw: random.Random) -> bool:
        """One batch; False when nothing is left."""
        found = self._post(connection, "checkout", {"tier": 1, "max_tokens": 1000})
        if found["batch_id"] is not None:
            entries = [{"text": "insight", "importance": 3}]
            self._post(connection, "commit", {"batch_id": found["batch_id"], "entries": entries})
        elif not found["leased"]:
            return False
        else:
            time.sleep(draw.uniform(*LOOK_AGAIN_SECONDS))
        return True

    def _post(self, connection: HTTPConnection, verb: str, body: object) -> Any:
        """The answer, however often it takes to get one. Any other has to say when to come back."""
        headers = {"Content-Type": "application/json", "X-Memory-Key": KEY}
        while True:
            began = time.monotonic()
            connection.request("POST", f"/v1/memory/consolidate/{verb}", json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.counts[f"{verb} {answer.status}"] += 1
            if answer.status == 200:
                return json.loads(content)
            time.sleep(int(answer.headers["Retry-After"]))


def test_a_crowd_of_connections_consolidates_everything_once(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with ministack.start() as stack:
        create(stack.client("dynamodb"), "gateway")
        settings = {
            "STRATA_BACKEND": "aws",
            "STRATA_TABLE": "gateway",
            "STRATA_AWS_ENDPOINT": stack.url,
            "STRATA_SEARCH_URL": f"http://127.0.0.1:{free_port()}",
            "STRATA_EMBEDDER": "hashed-64",
            "STRATA_AUTO_PROVISION_KEYS": "1",
        }
        with (
            Server(tmp_path, settings, PROGRAM) as server,
            httpx.Client(base_url=server.url, headers={"X-Memory-Key": KEY}, timeout=60) as client,
        ):
            messages = [{"role": "user", "content": f"{number}: {TEXT}"} for number in range(BATCHES * BATCH_ROWS)]
            assert client.post("/v1/memory/ingest", json={"messages": messages}).status_code == 202
            crowd = Crowd(server.url)
            crowd.run()
            rows = exported(client)
            # Nothing to store: an answer that only tells the debt.
            told = client.post("/v1/memory/ingest", json={"messages": [{"role": "user", "content": ""}]}).json()
    debt = told["reflection"]["unconsolidated"]
    assert (debt["raw"]["units"], debt["tier2"]["count"], debt["tier2"]["importance"]) == (0, BATCHES, 3 * BATCHES)
    check_lineage(rows)
    assert crowd.counts["commit 200"] == BATCHES == sum(row["tier"] == 2 for row in rows)
    assert all("consolidation" in row for row in rows if row["tier"] == 1)
    counts = {"connections": CONNECTIONS, **crowd.counts, "slowest answer in ms": round(crowd.slowest * 1000)}
    request.node.user_properties.append(("crowd over HTTP", counts))
    assert crowd.slowest < LONGEST_SECONDS
