"""Clients give up: the real server with its default model answers long before. Bounds are generous, not a benchmark."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server import Server

INGEST, SEARCH, STATS = "/v1/memory/ingest", "/v1/memory/search", "/v1/memory/stats"
SENTENCE = (
    "the harbour was quiet when Ada walked along the wall and counted boats for her survey while a heron waited "
    "near the weir and nobody in the village could say why the lantern on the tower had gone out again last night"
)
WORDS = SENTENCE.split()


def prose(characters: int, seed: int) -> str:
    chance = random.Random(seed)
    words: list[str] = []
    size = 0
    while size < characters:
        words.append(chance.choice(WORDS) + chance.choice(("", "", "", ",", ".")))
        size += len(words[-1]) + 1
    return " ".join(words)[:characters]


@pytest.fixture
def server_settings() -> dict[str, str]:
    return {"STRATA_EMBEDDER": "minilm-l6-v2"}


def to(server: Server) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers={"Authorization": "Bearer mk_in-a-hurry"}, timeout=120)


def timed(http: httpx.Client, path: str, **more: Any) -> tuple[float, httpx.Response]:
    start = time.monotonic()
    answer = http.post(path, **more)
    return time.monotonic() - start, answer


def test_the_first_search_after_a_start_does_not_wait_for_the_model(tmp_path: Path) -> None:
    server = Server(tmp_path, {"STRATA_EMBEDDER": "minilm-l6-v2"})
    with server, to(server) as http:
        messages = [{"role": "user", "content": f"{word} zq{number}"} for number, word in enumerate(WORDS)]
        assert http.post(INGEST, json={"messages": messages}).status_code == 202
    for _ in range(3):
        with server, to(server) as http:
            seconds, answer = timed(http, SEARCH, json={"query": "zq7"})
            assert answer.json()["memories"][0]["content"].endswith(" zq7")
            assert seconds < 4, seconds


def test_500_long_messages_are_taken_before_a_client_gives_up(server: Server) -> None:
    with to(server) as http:
        messages = [{"role": "user", "content": prose(3_000, number) + f" zq{number}"} for number in range(500)]
        for _ in range(2):
            seconds, answer = timed(http, INGEST, json={"messages": messages})
            assert (answer.status_code, answer.json()["stored"]) == (202, 500)
            assert seconds < 10, seconds
            seconds, found = timed(http, SEARCH, json={"query": "zq321", "limit": 2})
            assert all(row["content"].endswith(" zq321") for row in found.json()["memories"][:1])
            assert seconds < 5, seconds


def test_a_file_of_100_long_lines_is_taken_before_a_client_gives_up(server: Server) -> None:
    with to(server) as http:
        for turn in range(2):
            lines = b"\n".join(json.dumps({"content": prose(8_000, 100 * turn + n)}).encode() for n in range(100))
            seconds, answer = timed(http, "/v1/memory/upload", content=lines, headers={"Content-Type": "text/plain"})
            assert (answer.status_code, answer.json()["stats"]["stored"]) == (200, 100)
            assert seconds < 30, seconds
        seconds, _ = timed(http, SEARCH, json={"query": "who counted the boats?"})
        assert seconds < 5, seconds
        small, _ = timed(http, INGEST, json={"messages": [{"role": "user", "content": "one more"}]})
        assert small < 5, small
