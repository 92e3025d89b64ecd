"""One of several clients that fight over a vault while its server is killed. Every answer it gets goes into its log.

``python -m tests.e2e.contender URL FOLDER NUMBER`` runs until FOLDER holds a file named ``stop``. A request without an
answer is sent again until it gets one, as a client that lost its connection would.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import httpx

KEY = "mk_contended"
PAUSE_SECONDS = 0.02


class Contender:
    def __init__(self, url: str, folder: Path, number: int) -> None:
        self._client = httpx.Client(base_url=url, headers={"X-Memory-Key": KEY}, timeout=10)
        self._stop = folder / "stop"
        self._log = (folder / f"log-{number}.jsonl").open("a")
        self._draw = random.Random(number)
        self._number = number
        self._sent = 0
        self._mine: dict[str, str] = {}
        self._batches: list[str] = []

    def run(self) -> None:
        verbs = [self.ingest, self.consolidate, self.replay, self.delete, self.search]
        while not self._stop.exists():
            self._draw.choices(verbs, (5, 4, 1, 1, 2))[0]()

    def note(self, what: str, **fields: object) -> None:
        self._log.write(json.dumps({"what": what, **fields}) + "\n")
        self._log.flush()

    def post(self, path: str, body: object, **headers: str) -> httpx.Response | None:
        """The answer; None when the end has come before there was one."""
        while True:
            try:
                answer = self._client.post(f"/v1/memory/{path}", json=body, headers=headers)
                if answer.status_code != 503:
                    return answer
            except httpx.TransportError:
                pass
            if self._stop.exists():
                return None
            time.sleep(PAUSE_SECONDS)

    def ingest(self) -> None:
        texts = []
        for _ in range(self._draw.randint(1, 3)):
            self._sent += 1
            texts.append(f"word{self._number}x{self._sent} of contender {self._number}" + " and more" * 20)
        key = f"{self._number}-{self._sent}"
        body = {"messages": [{"role": "user", "content": text} for text in texts]}
        self.note("ingest-tried", texts=texts)
        answer = self.post("ingest", body, **{"Idempotency-Key": key})
        if answer is not None:
            ids = self._accepted(answer, 202)["ids"]
            self._mine.update(zip(ids, texts, strict=True))
            self.note("ingest", ids=ids, texts=texts)

    def consolidate(self) -> None:
        answer = self.post("consolidate/checkout", {"tier": 1, "max_tokens": 1000})
        found = None if answer is None else self._accepted(answer, 200)
        if found is None or found["batch_id"] is None:
            return
        name = found["batch_id"]
        self._batches.append(name)
        self.note("checkout", batch=name, sources=found["source_ids"])
        if self._draw.random() < 0.15:
            return
        self._commit(name)

    def replay(self) -> None:
        if self._batches:
            self._commit(self._draw.choice(self._batches))

    def _commit(self, name: str) -> None:
        self._sent += 1
        entries = [{"text": f"insight {self._number} {self._sent}", "importance": self._draw.randint(1, 10)}]
        answer = self.post("consolidate/commit", {"batch_id": name, "entries": entries})
        if answer is None:
            return
        if answer.status_code == 409:
            self.note("refused", batch=name, code=answer.json()["code"])
            return
        body = self._accepted(answer, 200)
        created = [item["id"] for item in body["created"]]
        self.note("commit", batch=name, created=created, sources=body["sources_consolidated"])

    def delete(self) -> None:
        if not self._mine:
            return
        memory_id = self._draw.choice(sorted(self._mine))
        del self._mine[memory_id]
        self.note("delete-tried", id=memory_id)
        answer = self.post("delete-ids", {"ids": [memory_id]})
        if answer is not None:
            self._accepted(answer, 200)
            self.note("delete", id=memory_id)

    def search(self) -> None:
        if not self._mine:
            return
        memory_id = self._draw.choice(sorted(self._mine))
        answer = self.post("search", {"query": self._mine[memory_id].split()[0], "limit": 10, "tiers": [1]})
        if answer is not None:
            found = [row["id"] for row in self._accepted(answer, 200)["memories"]]
            self.note("search", id=memory_id, found=memory_id in found)

    def _accepted(self, answer: httpx.Response, status: int) -> Any:
        if answer.status_code != status:
            self.note("surprise", status=answer.status_code, body=answer.text[:500])
            raise SystemExit(1)
        return answer.json()


if __name__ == "__main__":
    Contender(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])).run()
