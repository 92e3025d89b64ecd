"""A vault moves from a laptop to a deployment and back, by export and import, and answers as before on either side."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from infra.local.account import Account
from infra.local.gateway import Gateway
from shared import bootstrap
from shared.settings import Settings
from tests.api.client import Client
from tests.api.test_moving import CHECKOUT, COMMIT, DAY_MS, FIRST_MS, INSPECT, RELEASE, SEARCH, pages, settle, take_in
from tests.deploy.http_gateway import HttpGateway
from tests.e2e.server import Server

pytestmark = pytest.mark.xdist_group("deployed")

STATS = "/v1/memory/stats"
SESSIONS = (None, "work", "home", "garden")
PLACES = ("harbour", "allotment", "clinic", "bakery", "library", "station", "attic")
THINGS = ("ferry", "saffron", "violin", "lantern", "cedar", "glacier", "orchard", "kettle", "parcel", "bicycle", "map")
DEEDS = ("repaired", "lost", "borrowed", "painted", "sold", "found")
RAW = 150
GONE = 9
QUERIES = (
    "harbour",
    "Who repaired the violin?",
    "the bicycle that was lost at the station",
    "saffron from the bakery",
    "ferry and glacier",
    "what was painted in the attic",
    "high-level: what matters at the library",
    "nothing that anybody wrote",
)
SECONDS = 120.0
TIE = 5e-5
Ranked: TypeAlias = dict[str, list[tuple[str, float]]]
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


@contextmanager
def laptop(folder: Path) -> Iterator[tuple[Client, bootstrap.Embedded]]:
    settings = Settings(data=folder, embedder="hashed-64", index_memory_mb=64)
    try:
        with bootstrap.Embedded(settings) as embedded:
            bootstrap.activate(embedded)
            yield Client(Gateway(embedded.services), embedded.services, "mk_from-a-laptop"), embedded
    finally:
        bootstrap.activate(None)


def live(client: Client) -> None:
    """150 messages in sessions, two batches of reflections, one of high-level ones, and deletions of each kind."""
    for place, session in enumerate(SESSIONS):
        messages = [message(number) for number in range(place, RAW, len(SESSIONS))]
        assert client.post("/v1/memory/ingest", {"messages": messages, "session_id": session}).status == 202
    first = reflect(client, 1, 5)
    second = reflect(client, 1, 4)
    reflect(client, 2, 2)
    assert len(first) + len(second) == 9
    raw = [row["id"] for row in client.export() if row["tier"] == 1]
    sources = [each["id"] for each in client.post(INSPECT, {"memory_id": first[0]}).json["sources"]]
    free = [each for each in raw if not client.post(INSPECT, {"memory_id": each}).json["consolidated_into"]]
    gone = [*sources[:3], *free[:5], second[-1]]
    assert len(gone) == GONE
    assert client.post("/v1/memory/delete-ids", {"ids": gone}).json["deleted"] == GONE


def message(number: int) -> dict[str, object]:
    words = THINGS[number % 11], DEEDS[number % 6], PLACES[number % 7], THINGS[number * 3 % 11]
    text = "The {} was {} at the {}, beside a {}; that was day {}.".format(*words, number // 2)
    # Two messages of each day share an instant.
    return {"role": ("user", "Ada")[number % 2], "content": text, "timestamp": FIRST_MS + number // 2 * DAY_MS}


def reflect(client: Client, tier: int, entries: int) -> list[str]:
    batch = client.post(CHECKOUT, {"tier": tier, "max_tokens": 1_000}).json
    texts = [f"Of tier {tier + 1}: {THINGS[n]} and {PLACES[n]} come up {n + 2} times." for n in range(entries)]
    body = [{"text": text, "importance": n + 3} for n, text in enumerate(texts)]
    answer = client.post(COMMIT, {"batch_id": batch["batch_id"], "entries": body})
    assert answer.status == 200, answer.body
    return [created["id"] for created in answer.json["created"]]


def settled(client: Client) -> None:
    stats: Any = None
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        stats = client.get(STATS).json
        if not (stats["waiting_vectors"] or stats["index_lag_s"] or stats["pending"]) and stats["totalVectors"]:
            return
        time.sleep(0.5)
    raise AssertionError(f"the index does not catch up: {stats}")


def ranked(client: Client) -> Ranked:
    """Ids in order, with scores."""
    found: Ranked = {}
    for query in QUERIES:
        for name, more in (("all", {}), ("work", {"session_id": "work"}), ("reflections", {"tiers": [2, 3]})):
            rows = client.post(SEARCH, {"query": query, "limit": 200, **more}).json["memories"]
            found[f"{name}: {query}"] = [(row["id"], row["score"]) for row in rows]
    return found


def told(client: Client) -> dict[str, Any]:
    """What else readers see: it does not come from the index, so it has to be equal to the byte."""
    stats = client.get(STATS).json
    reflections = [row["id"] for row in client.export() if row["tier"] > 1]
    return {
        "inspect": {each: client.post(INSPECT, {"memory_id": each}).json for each in reflections},
        "debt": stats["reflection"],
        "counts": {name: stats[name] for name in ("memories", "tiers", "sessions", "totalTokens", "oldest", "newest")},
        "passages": stats["totalVectors"],
    }


def waiting(client: Client) -> list[str]:
    """Which memories a consolidation would take next; it is given back."""
    batch = client.post(CHECKOUT, {"tier": 1}).json
    assert client.post(RELEASE, {"batch_id": batch["batch_id"]}).status == 200
    ids: list[str] = batch["source_ids"]
    return ids


def same(here: Ranked, there: Ranked) -> None:
    """The same rows with the same scores, in the same order but for ties: the back ends round vectors differently."""
    assert here.keys() == there.keys()
    for asked, rows in here.items():
        scores = dict(rows)
        assert dict(there[asked]) == pytest.approx(scores, abs=1e-3), asked
        assert [scores[row[0]] for row in there[asked]] == pytest.approx([row[1] for row in rows], abs=TIE), asked


def test_a_vault_moves_to_the_cloud_and_back(client: Client, tmp_path: Path) -> None:
    cloud = client.using("mk_from-a-laptop")
    with laptop(tmp_path / "laptop") as (home, embedded):
        live(home)
        settle(embedded)
        parts, answers, facts, next_up = pages(home, 50), ranked(home), told(home), waiting(home)
    assert facts["counts"]["tiers"] == {"1": RAW - 8, "2": 8, "3": 2}
    assert len(facts["inspect"]) == 10
    assert [len(rows) for name, rows in answers.items() if name.startswith("all: ")] == [RAW - GONE + 11] * len(QUERIES)
    assert len(parts) == 4

    assert take_in(cloud, parts)["total"] == RAW - GONE + 11
    settled(cloud)
    assert b"".join(pages(cloud, 1_000)) == b"".join(parts)
    same(answers, ranked(cloud))
    assert told(cloud) == facts
    assert waiting(cloud) == next_up
    back = pages(cloud, 70)

    with laptop(tmp_path / "another") as (home, embedded):
        take_in(home, back)
        settle(embedded)
        assert b"".join(pages(home, 1_000)) == b"".join(parts)
        same(answers, ranked(home))
        assert told(home) == facts
        assert waiting(home) == next_up


def test_life_goes_on_after_the_move(client: Client, tmp_path: Path) -> None:
    """What came from a laptop can be consolidated, undone and added to like what was written there."""
    cloud = client.using("mk_from-a-laptop")
    with laptop(tmp_path / "laptop") as (home, _):
        live(home)
        parts = pages(home, 1_000)
        lines = [json.loads(line) for line in b"".join(parts).splitlines()]
    take_in(cloud, parts)
    debt = cloud.get(STATS).json["reflection"]["unconsolidated"]["raw"]["units"]
    assert debt == sum(row["tier"] == 1 and not row["consolidated_into"] for row in lines)
    (new,) = cloud.ingest("a word from the cloud")
    made = reflect(cloud, 1, 3)
    left = cloud.get(STATS).json["reflection"]["unconsolidated"]["raw"]["units"]
    taken = cloud.post(INSPECT, {"memory_id": made[0]}).json
    assert left == debt + 1 - taken["sources_total"]
    assert taken["sources_total"] > 0
    batch = next(row["batch_id"] for row in cloud.export() if row["id"] == made[0])
    assert cloud.post("/v1/memory/consolidate/reopen", {"batch_id": batch}).json["reflections_removed"] == 3
    assert cloud.get(STATS).json["reflection"]["unconsolidated"]["raw"]["units"] == debt + 1
    assert {row["id"] for row in cloud.export()} == {row["id"] for row in lines} | {new}


def test_the_commands_of_the_guide_move_a_vault(deployed: Account, client: Client, tmp_path: Path) -> None:
    """Printed for a shell, they are run by one, from a real server to the deployed API and back into files."""
    (commands,) = re.findall(r"^```sh\n(export_vault\(\).*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    key = client.post("/v1/keys").json["key"]
    cloud = client.using(key)
    with Server(tmp_path, {"STRATA_EMBEDDER": "hashed-64"}) as server:
        first = Client(HttpGateway(server.url), client.services, "mk_first")
        made = first.post("/v1/keys").json["key"]
        home = first.using(made)
        for start in (0, 500, 1000):
            texts = [f"{THINGS[n % 11]} number {n}" for n in range(start, start + 500)]
            home.ingest(*texts)
        home.consolidate("Things have numbers.")
        sent = pages(home, 5_000)
        moved = f"export_vault {server.url} {made} moving\nimport_vault {deployed.url} {key} moving\n"
        done = subprocess.run(
            ["sh", "-euc", f"{commands}{moved}export_vault {deployed.url} {key} back\n"],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
            env={"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1"},
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"status":"complete"' in done.stdout
    for folder in ("moving", "back"):
        files = sorted((tmp_path / folder).iterdir())
        assert [file.name for file in files] == ["000001.jsonl", "000002.jsonl"]
        assert b"".join(file.read_bytes() for file in files) == b"".join(sent)
    assert len(cloud.export()) == 1_501
