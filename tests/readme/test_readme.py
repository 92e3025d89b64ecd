"""The README is run as printed, on a real server; only its address and its data folder are replaced."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared import settings
from shared.api.routes import ROUTES
from tests.e2e.server import ROOT, Server

README = (ROOT / "README.md").read_text("utf-8")
API = (ROOT / "docs" / "api.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:8787"
DEMO = {"X-Memory-Key": "mk_demo"}


def section(title: str) -> str:
    return re.split(r"^## ", README.partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]


def blocks(title: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), {"STRATA_EMBEDDER": "hashed-64"}) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    """A running server on which the vaults of the README are empty."""
    for key in ("mk_demo", "mk_copy", "mk_other"):
        httpx.delete(f"{running.url}/v1/memory", headers={"X-Memory-Key": key}).raise_for_status()
    return running


def run(script: str, server: Server, folder: Path) -> str:
    """What the commands print. Every command must succeed."""
    done = shell(script, server, folder, "-eu")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shell(script: str, server: Server, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Without `options` as a person's shell runs the commands: it does not stop at an error by itself."""
    for printed, real in (
        (ADDRESS, server.url),
        (".venv/bin/python", sys.executable),
        ("python3", sys.executable),
        (".strata", str(server.data)),
    ):
        script = script.replace(printed, real)
    command = ["sh", *options, "-c", script]
    return subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=60)


def remember(server: Server, *texts: str, key: str = "mk_demo") -> None:
    body = {"messages": [{"role": "user", "content": text} for text in texts]}
    httpx.post(f"{server.url}/v1/memory/ingest", headers={"X-Memory-Key": key}, json=body).raise_for_status()


def exported(server: Server, key: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{server.url}/v1/memory/export", headers={"X-Memory-Key": key})
    answer.raise_for_status()
    return [json.loads(line) for line in answer.text.splitlines()]


def test_demo(tmp_path: Path) -> None:
    start, demo = blocks("Try it", "sh")
    assert start == "make serve\n"
    with Server(tmp_path / "server") as server:
        ingested, found, condensed, inspected = map(json.loads, run(demo, server, tmp_path).splitlines())

    lisbon, ferry = (
        "We moved to Lisbon in March. The flat is close to the river.",
        "Ana and I take the ferry to work every Monday.",
    )
    assert ingested["stored"] == 2
    assert [row["content"] for row in found["memories"]] == [lisbon]
    assert found["memories"][0]["score"] > 0
    reflection = condensed["memories"][0]
    assert reflection["content"].startswith("The user lives in Lisbon")
    assert (reflection["tier"], reflection["importance"]) == (2, 7)
    assert inspected["memory_id"] == reflection["id"]
    assert [(row["id"], row["content"]) for row in inspected["sources"]] == list(
        zip(ingested["ids"], (lisbon, ferry), strict=True)
    )
    assert condensed["reflection"]["unconsolidated"]["raw"]["units"] == 0


def test_consolidation_loop(server: Server, tmp_path: Path) -> None:
    remember(server, "The first fact.", "The second fact.")
    (loop,) = blocks("Consolidate with your own model", "python")

    done = subprocess.run(
        [sys.executable, "-c", loop.replace(ADDRESS, server.url)],
        check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["2 memories became 1 of tier 2", "1 memories became 1 of tier 3"]
    rows = {row["tier"]: row for row in exported(server, "mk_demo")}
    assert rows[2]["content"] == "Summary: The first fact. The second fact."
    assert rows[3]["content"] == "Summary: Summary: The first fact. The second fact."


def test_what_a_consolidation_would_take(server: Server, tmp_path: Path) -> None:
    remember(server, "The first fact.", "The second fact.")
    (command,) = blocks("Consolidate with your own model", "sh")

    shown = run(f"cd '{ROOT}'\n{command.rstrip()} --url {ADDRESS} --state '{tmp_path}'", server, tmp_path)

    assert "2 raw memories wait" in shown
    free = httpx.post(
        f"{server.url}/v1/memory/consolidate/checkout", headers={"X-Memory-Key": "mk_demo"}, json={"tier": 1}
    )
    assert free.json()["count"] == 2


def test_read_only_key(server: Server, tmp_path: Path) -> None:
    remember(server, "The first fact.")
    mint, admin = blocks("Keys", "sh")

    minted = json.loads(run(mint, server, tmp_path))

    assert minted["scopes"] == ["memories:read"]
    reader = {"X-Memory-Key": minted["key"]}
    assert [row["content"] for row in exported(server, minted["key"])] == ["The first fact."]
    refused = httpx.post(f"{server.url}/v1/memory/consolidate/checkout", headers=reader, json={"tier": 1})
    assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")
    assert admin.startswith(".venv/bin/python -m infra.admin_key")


def test_first_admin_key(tmp_path: Path) -> None:
    closed = Server(tmp_path / "server", {"STRATA_EMBEDDER": "hashed-64", "STRATA_AUTO_PROVISION_KEYS": "0"})
    command = f"export STRATA_DATA='{closed.data}'\ncd '{ROOT}'\n{blocks('Keys', 'sh')[1]}"

    key = run(command, closed, tmp_path).strip()

    with closed:
        keys = f"{closed.url}/v1/keys"
        assert httpx.get(keys, headers=DEMO).status_code == 401
        listed = httpx.get(keys, headers={"X-Memory-Key": key})
    assert [entry["name"] for entry in listed.json()["keys"]] == ["first admin"]


def test_backup_of_a_running_server(server: Server, tmp_path: Path) -> None:
    remember(server, "The first fact.")
    remember(server, "Somebody else's fact.", key="mk_other")

    run(blocks("Backup and restore", "sh")[0], server, tmp_path)
    remember(server, "Too late for the backup.")

    copy = Server(tmp_path / "restored", {"STRATA_EMBEDDER": "hashed-64", "STRATA_DATA": str(tmp_path / "backup")})
    with copy:
        assert [row["content"] for row in exported(copy, "mk_demo")] == ["The first fact."]
        assert [row["content"] for row in exported(copy, "mk_other")] == ["Somebody else's fact."]
        found = httpx.post(f"{copy.url}/v1/memory/search", headers=DEMO, json={"query": "fact"}).json()
    assert [row["content"] for row in found["memories"]] == ["The first fact."]


@pytest.mark.parametrize("fails", [None, 1, 2, 3, 4])
def test_moving_a_vault(server: Server, tmp_path: Path, fails: int | None) -> None:
    """`fails` is the request that gets no answer: an export or an import, on the first page or on the last."""
    for page in range(3):
        remember(server, *(f"Fact number {page * 500 + number}." for number in range(500)))
    batch = httpx.post(
        f"{server.url}/v1/memory/consolidate/checkout", headers=DEMO, json={"tier": 1, "max_tokens": 1_000}
    ).json()
    body = {"batch_id": batch["batch_id"], "entries": [{"text": "Many facts.", "importance": 5}]}
    httpx.post(f"{server.url}/v1/memory/consolidate/commit", headers=DEMO, json=body).raise_for_status()
    script = blocks("Backup and restore", "sh")[1]

    def whole(key: str) -> list[str]:
        lines: list[str] = []
        query: dict[str, str] = {}
        while True:
            answer = httpx.get(f"{server.url}/v1/memory/export", params=query, headers={"X-Memory-Key": key})
            lines += answer.text.splitlines()
            if "X-Next-Cursor" not in answer.headers:
                return lines
            query = {"cursor": answer.headers["X-Next-Cursor"]}

    lines = whole("mk_demo")
    assert len(lines) == 1_501
    if fails is not None:
        lossy = f'sent=0\ncurl() {{ sent=$((sent + 1)); [ $sent -ne {fails} ] || return 22; command curl "$@"; }}\n'
        assert shell(lossy + script, server, tmp_path).returncode == 22
        assert whole("mk_copy") == []
    run(script, server, tmp_path)
    assert whole("mk_copy") == lines


def test_settings_table() -> None:
    told = dict(re.findall(r"^\| `(STRATA_\w+)` \|([^|]*)\|", section("Settings"), re.MULTILINE))
    fields = {f"STRATA_{name.upper()}": name for name in settings.Settings.__slots__}
    values = {name: cell.strip().strip("`") for name, cell in told.items() if "`" in cell}

    assert told.keys() == fields.keys()
    assert settings.load(values) == settings.Settings()
    assert all(getattr(settings.Settings(), fields[name]) is None for name in told.keys() - values.keys())


def test_settings_are_named_nowhere_else_by_another_name() -> None:
    fields = {f"STRATA_{name.upper()}" for name in settings.Settings.__slots__} | set(settings.CLIENT_KEYS)

    for page in (README, API, (ROOT / "CONTRIBUTING.md").read_text("utf-8")):
        assert set(re.findall(r"STRATA_[A-Z_]*[A-Z]", page)) <= fields


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/api.md", "docs/mcp.md"])
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        linked = page if not path else page.parent / path
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

    assert set(re.findall(r"`?make (\w+)`", README)) <= targets


def test_api_page_lists_every_route() -> None:
    rows = re.findall(r"^\| `([A-Z]+) (/\S*)` \| ([^|]*) \| (\d+) \|", API, re.MULTILINE)

    assert [
        (method, path, set(re.findall(r"`([a-z:]+)`", scopes)), int(status)) for method, path, scopes, status in rows
    ] == [(route.method, route.path, set(route.scopes or ()), route.success) for route in ROUTES]
