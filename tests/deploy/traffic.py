"""Clients that go on while something is done to a deployment, and what became of each of their requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import urllib3

from tests.api.client import Answer, Client

PATIENCE_S = 90.0
RETRIED = (429, 503)
KILLED = b"Worker process died"
"""The emulator kills a function that is changed in the middle of a request; on AWS it would end first."""


@dataclass
class Seen:
    """What became of the requests.

    `stored` maps a word that one row alone has to the row's id. `killed` requests were cut off by the emulator and sent
    again; `lost` ones got no good answer in the end.
    """

    stored: dict[str, str] = field(default_factory=dict)
    searches: int = 0
    waits: int = 0
    killed: int = 0
    lost: list[str] = field(default_factory=list)


class Traffic:
    """Writers and searchers on one vault. A refusal that says when to come again is waited out, as clients do."""

    def __init__(self, client: Client, name: str) -> None:
        self.seen = Seen()
        self._client, self._name = client, name
        self._stop = threading.Event()
        self._lock = threading.Lock()

    @contextmanager
    def going(self, writers: int = 2, searchers: int = 2) -> Iterator[Seen]:
        threads = [threading.Thread(target=self._write, args=(number,)) for number in range(writers)]
        threads += [threading.Thread(target=self._search) for _ in range(searchers)]
        for thread in threads:
            thread.start()
        try:
            yield self.seen
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def goes_on(self, requests: int = 3) -> None:
        """Wait until so many more rows were stored and searches answered."""
        with self._lock:
            stored, searches = len(self.seen.stored) + requests, self.seen.searches + requests
        deadline = time.monotonic() + PATIENCE_S
        while len(self.seen.stored) < stored or self.seen.searches < searches:
            assert time.monotonic() < deadline, self.seen
            time.sleep(0.2)

    def _write(self, writer: int) -> None:
        number = 0
        while not self._stop.is_set():
            word = f"{self._name}w{writer}n{number}"
            # Named, so that a request whose answer was lost is not stored twice.
            body = {"messages": [{"role": "user", "content": f"the parcel {word} arrived"}]}
            answer = self._sent("/v1/memory/ingest", body, {"Idempotency-Key": word})
            if answer is not None and answer.status == 202:
                with self._lock:
                    self.seen.stored[word] = answer.json["ids"][0]
            number += 1
            time.sleep(0.05)

    def _search(self) -> None:
        while not self._stop.is_set():
            answer = self._sent("/v1/memory/search", {"query": "which parcel arrived?", "limit": 5}, {})
            if answer is not None and answer.status == 200:
                with self._lock:
                    self.seen.searches += 1
            time.sleep(0.05)

    def _sent(self, path: str, body: object, headers: dict[str, str]) -> Answer | None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = self._client.post(path, body, headers=headers)
            except urllib3.exceptions.HTTPError as error:
                with self._lock:
                    self.seen.killed += 1
                    if time.monotonic() > deadline:
                        self.seen.lost.append(f"{path}: {type(error).__name__}")
                        return None
                continue
            if answer.status in (200, 202):
                return answer
            wait = {name.lower(): value for name, value in answer.headers.items()}.get("retry-after")
            if answer.status in RETRIED and wait is not None and time.monotonic() < deadline:
                with self._lock:
                    self.seen.waits += 1
                time.sleep(min(float(wait), 2))
                continue
            if KILLED in answer.body and time.monotonic() < deadline:
                with self._lock:
                    self.seen.killed += 1
                continue
            with self._lock:
                self.seen.lost.append(f"{path}: {answer.status} {answer.body[:200]!r}")
            return answer
