"""After a large upload: its words are found at once, and `stats` tells how many vectors are still to come."""

from __future__ import annotations

import json

import pytest

from shared import bootstrap
from shared.usecases.indexing import fill_vectors
from tests.api.backends import EMBEDDED_ONLY
from tests.api.client import Client

STEP = 300


@EMBEDDED_ONLY
@pytest.mark.parametrize("lines", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_words_are_there_with_the_answer_and_vectors_follow(
    lines: int, client: Client, backend: bootstrap.Embedded
) -> None:
    texts = [f"Entry {number} of the harbour log." for number in range(lines)]
    texts[-1] += " The quay was quixotically empty."
    file = "\n".join(json.dumps({"content": text}) for text in texts).encode()
    answer = client.post("/v1/memory/upload", file, content_type="application/x-ndjson")
    assert answer.json["stats"]["stored"] == lines
    assert found(client) == texts[-1]
    (vault,) = backend.stored()
    waiting = [counts(client)]
    assert waiting == [(lines, 0)]
    while fill_vectors(backend.services, vault, STEP):
        waiting.append(counts(client))
    left = [*range(lines, 0, -STEP), 0]
    assert waiting == [(still, lines - still) for still in left]
    assert found(client) == texts[-1]


def found(client: Client) -> str:
    answer = client.post("/v1/memory/search", {"query": "quixotically", "limit": 1})
    assert answer.status == 200, answer.body
    return str(answer.json["memories"][0]["content"])


def counts(client: Client) -> tuple[int, int]:
    """Passages that wait for their vectors, and those that have one."""
    stats = client.get("/v1/memory/stats").json
    assert stats["totalVectors"] == stats["waiting_vectors"] + stats["hotVectors"]
    return stats["waiting_vectors"], stats["hotVectors"]
