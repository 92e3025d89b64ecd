"""LoCoMo as corpora: every conversation a vault, every turn a row, categories 1 to 4.

The data set is not part of this project (snap-research/LoCoMo, CC BY-NC 4.0); bring the public file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from shared.domain.times import DAY_MS
from tests.bench.retrieval.corpus import Corpus, Line, Question

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single hop"}


def corpora(path: Path) -> list[Corpus]:
    samples = json.loads(path.read_text("utf-8"))
    return [_corpus(str(sample["sample_id"]), sample) for sample in samples]


def _corpus(name: str, sample: dict[str, Any]) -> Corpus:
    turns = list(_turns(sample["conversation"]))
    lines = [line for _, line in turns]
    asked = lines[-1].date_ms + DAY_MS
    return Corpus(name, lines, list(_questions(sample["qa"], {place: line.id for place, line in turns}, asked)))


def _turns(conversation: dict[str, Any]) -> Iterator[tuple[str, Line]]:
    count = 0
    for session in range(1, 200):
        stamp = conversation.get(f"session_{session}_date_time")
        for number, turn in enumerate(conversation.get(f"session_{session}") or ()):
            start = datetime.strptime(str(stamp), "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            count += 1
            date = int(start.timestamp() * 1000) + number * 1000
            name = str(UUID(int=count))
            yield turn["dia_id"], Line(name, turn["speaker"], f"session {session}", date, _said(turn))


def _said(turn: dict[str, Any]) -> str:
    """What was said, with the caption of a shared picture, as the data set's authors feed it to models."""
    caption = turn.get("blip_caption")
    return f"{turn['text']} [image: {caption}]" if caption else str(turn["text"])


def _questions(asked: list[dict[str, Any]], known: dict[str, str], when: int) -> Iterator[Question]:
    for entry in asked:
        places = (place for item in entry["evidence"] for place in re.split(r"[;\s,]+", item))
        relevant = frozenset(known[place] for place in places if place in known)
        if entry["category"] in CATEGORIES and relevant:
            yield Question(entry["question"], relevant, CATEGORIES[entry["category"]], when)
