"""One step of the script as requests, and what its answers tell."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.load import script
from tests.load.client import SURELY_NOT_DONE, Answer, Client
from tests.load.known import RELEASED, UNSURE, Known
from tests.load.script import Step

CHECKOUT, COMMIT, RENEW, RELEASE, REPLAY = "checkout", "commit", "renew", "release", "commit again"
WINDOW_TOKENS = 4_000


class Driver:
    """Takes steps for all clients; safe to use from several threads."""

    def __init__(self, client: Client, vaults: Sequence[Known]) -> None:
        self._client, self._vaults = client, vaults

    def take(self, step: Step, intended: float | None = None) -> None:
        """`intended` is when the step was to begin, by default now."""
        Doing(self._client, self._vaults[step.vault], step, intended).run()


class Doing:
    """One step on its way."""

    def __init__(self, client: Client, vault: Known, step: Step, intended: float | None) -> None:
        self._client, self._vault, self._step, self._intended = client, vault, step, intended
        self._draw = random.Random(step.draw)

    def run(self) -> None:
        verbs = {
            script.SEARCH: self.search,
            script.INGEST: self.ingest,
            script.DATE_SEARCH: self.date_search,
            script.INSPECT: self.inspect,
            script.STATS: self.stats,
            script.CONSOLIDATE: self.consolidate,
            script.DELETE: self.delete,
            script.UPLOAD: self.upload,
        }
        verbs[self._step.operation]()

    def _post(self, operation: str, path: str, body: object, **more: Any) -> Answer:
        """Only the first request of a step has an intended moment; the others follow an answer."""
        intended, self._intended = self._intended, None
        return self._client.call(
            operation, "POST", f"/v1/memory/{path}", self._vault.key, body, intended=intended, **more
        )

    def search(self) -> None:
        row = self._vault.pick_row(self._draw) if self._draw.random() < script.BY_NAME_SHARE else None
        body: dict[str, object] = {"query": script.question(self._draw) if row is None else row[1], "limit": 10}
        if row is not None:
            body["tiers"] = [1]
        asked = time.monotonic()
        answer = self._post(script.SEARCH, "search", body)
        if answer.status != 200:
            return
        found = [each["id"] for each in answer.json["memories"]]
        self._vault.check_live(found, asked)
        if row is not None and row[0] not in found and self._vault.still_there(row[0]):
            self._vault.fail(f"a search for the own word of {row[0]} did not find it")

    def ingest(self) -> None:
        names = [f"{self._step.name}m{place}" for place in range(self._draw.randint(1, script.MAX_MESSAGES))]
        messages = [{"role": "user", "content": script.text(self._draw, name)} for name in names]
        body = {"messages": messages, "session_id": f"session {self._draw.randint(1, 5)}"}
        answer = self._post(script.INGEST, "ingest", body, headers={"Idempotency-Key": self._step.name})
        if answer.status == 202:
            self._vault.stored(answer.json["ids"], names)
        else:
            with self._vault.lock:
                self._vault.unsure.update(names)

    def upload(self) -> None:
        names = [f"{self._step.name}u{place}" for place in range(self._draw.randint(5, script.MAX_LINES))]
        lines = "".join(json.dumps({"content": script.text(self._draw, name)}) + "\n" for name in names)
        # Without a name of its own a repeated upload would store its lines again.
        answer = self._post(
            script.UPLOAD, "upload", lines.encode(), headers={"Content-Type": "application/x-ndjson"}, again=False
        )
        with self._vault.lock:
            (self._vault.lines if answer.status == 200 else self._vault.unsure).update(names)

    def date_search(self) -> None:
        asked = time.monotonic()
        order = self._draw.choice(("newest_first", "oldest_first"))
        body = {"from": "2000-01-01", "max_tokens": WINDOW_TOKENS, "order": order}
        answer = self._post(script.DATE_SEARCH, "date-search", body)
        if answer.status == 200:
            self._vault.check_live([each["id"] for each in answer.json["memories"]], asked)

    def inspect(self) -> None:
        memory_id = self._vault.pick_any(self._draw)
        if memory_id is None:
            return self.stats()
        answer = self._post(script.INSPECT, "inspect", {"memory_id": memory_id})
        if answer.status == 404 and self._vault.still_there(memory_id):
            self._vault.fail(f"{memory_id} cannot be inspected")
        return None

    def stats(self) -> None:
        intended, self._intended = self._intended, None
        self._client.call(script.STATS, "GET", "/v1/memory/stats", self._vault.key, intended=intended)

    def delete(self) -> None:
        picked = [self._vault.pick_row(self._draw) for _ in range(self._draw.randint(1, script.MAX_DELETED))]
        ids = list(dict.fromkeys(row[0] for row in picked if row is not None))
        if not ids:
            return self.stats()
        self._vault.about_to_delete(ids)
        answer = self._post(script.DELETE, "delete-ids", {"ids": ids})
        if answer.status == 200:
            body = answer.json
            if body["deleted"] + body["not_found"] + len(body["failed"]) != len(ids):
                self._vault.fail("a deletion has lost count of its ids")
            if not body["failed"]:
                self._vault.was_deleted(ids, time.monotonic())
        return None

    def consolidate(self) -> None:
        plan = script.consolidation(self._draw)
        wanted = {"tier": plan.tier, "max_tokens": plan.max_tokens}
        answer = self._post(CHECKOUT, "consolidate/checkout", wanted, again=False)
        if answer.status != 200:
            with self._vault.lock:
                self._vault.lost_leases += answer.status != 429 and answer.code not in SURELY_NOT_DONE
            return
        body = answer.json
        name = body["batch_id"]
        if name is None:
            return
        self._vault.leased(name, plan.tier, body["source_ids"])
        if plan.end == "release":
            self._finish(RELEASE, "release", name, RELEASED)
            return
        if plan.end == "leave":
            return
        if plan.end == "renew":
            renewed = self._post(RENEW, "consolidate/renew", {"batch_id": name})
            if renewed.status == 409:
                self._vault.fail(f"the lease of {name} could not be renewed")
        self._commit(COMMIT, name)
        if plan.replay:
            self._commit(REPLAY, name)

    def _finish(self, operation: str, path: str, name: str, state: str) -> None:
        answer = self._post(operation, f"consolidate/{path}", {"batch_id": name})
        self._vault.move(name, state if answer.status == 200 else UNSURE)

    def _commit(self, operation: str, name: str) -> None:
        entries = [
            {"text": script.text(self._draw, f"{self._step.name}r{place}"), "importance": self._draw.randint(1, 10)}
            for place in range(self._draw.randint(1, 3))
        ]
        answer = self._post(operation, "consolidate/commit", {"batch_id": name, "entries": entries})
        if answer.status == 200:
            body: Mapping[str, Any] = answer.json
            self._vault.committed(name, body, [each["id"] for each in body["created"]])
        elif answer.code == "sources_deleted":
            self._vault.move(name, RELEASED)
        elif answer.status == 409:
            self._vault.fail(f"the commit of {name} was refused: {answer.code}")
        else:
            self._vault.move(name, UNSURE)
