"""Turn recall@10 on LoCoMo, categories 1 to 4, and the time of one search.

    python -m tests.bench.locomo path/to/locomo10.json [--model minilm-l6-v2|wordllama-256]

The data set is not part of this project (CC BY-NC 4.0); bring the public file. Every conversation is a vault, every
turn a memory: its role is the speaker, its session the conversation's. Recall is the share of a question's evidence
turns among the first ten, averaged over questions.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from shared.adapters.local_embedder.minilm import MiniLmEmbedder
from shared.adapters.local_embedder.static import StaticEmbedder
from shared.adapters.sqlite.resident import ResidentIndex
from shared.ports.embedder import Embedder
from shared.retrieval.chunks import chunks, embedded_text
from shared.retrieval.indexed import IndexedPassage, QuerySignals, counted_words, passage_words
from shared.retrieval.ranking import rank
from shared.retrieval.tokens import tokens

TOP = 10
CATEGORIES = (1, 2, 3, 4)
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Turn:
    place: str
    id: str
    role: str
    session: str
    date_ms: int
    text: str


def turns_of(conversation: dict[str, Any]) -> Iterator[Turn]:
    count = 0
    for session in range(1, 200):
        spoken = conversation.get(f"session_{session}")
        if not spoken:
            continue
        stamp = conversation[f"session_{session}_date_time"]
        start = datetime.strptime(stamp, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for number, turn in enumerate(spoken):
            count += 1
            date = int(start.timestamp() * 1000) + number * 1000
            name = str(UUID(int=count, version=4))
            yield Turn(turn["dia_id"], name, turn["speaker"], f"session {session}", date, _said(turn))


def _said(turn: dict[str, Any]) -> str:
    """What was said, with the caption of a shared picture, as the data set's authors feed it to models."""
    caption = turn.get("blip_caption")
    return f"{turn['text']} [image: {caption}]" if caption else str(turn["text"])


def questions_of(sample: dict[str, Any], known: set[str]) -> Iterator[tuple[str, set[str]]]:
    for entry in sample["qa"]:
        evidence = {place for item in entry["evidence"] for place in re.split(r"[;\s,]+", item) if place in known}
        if entry["category"] in CATEGORIES and evidence:
            yield entry["question"], evidence


def index_of(turns: Sequence[Turn], embedder: Embedder) -> ResidentIndex:
    index = ResidentIndex(embedder.dimension)
    term = defaultdict[str, int](count().__next__)
    for turn in turns:
        passages = []
        texts = chunks(turn.text)
        vectors = embedder.embed_documents([embedded_text(turn.role, turn.date_ms, text) for text in texts])
        for number, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
            words = passage_words(turn.role, turn.date_ms, text)
            ((terms, counts),) = counted_words([words], term)
            index.learn((stem, term[stem]) for stems in words for stem in stems)
            passages.append(
                IndexedPassage(
                    turn.id,
                    number,
                    1,
                    turn.role,
                    turn.session,
                    turn.date_ms,
                    None,
                    None,
                    None,
                    terms,
                    counts,
                    vector,
                )
            )
        index.add(passages)
    return index


class StemmedBm25:
    """The plain word ranking to compare with: own words only, true average length, k1 1.2, b 0.75."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.rows = [Counter(tokens(text)) for text in texts]
        self.lengths = np.array([sum(row.values()) for row in self.rows], float)
        self.frequency = Counter(term for row in self.rows for term in row)

    def best(self, question: str) -> list[int]:
        scores = np.zeros(len(self.rows))
        norms = 1.2 * (0.25 + 0.75 * self.lengths / self.lengths.mean())
        for term in set(tokens(question)):
            found = np.array([row[term] for row in self.rows], float)
            known = self.frequency[term]
            scores += np.log1p((len(self.rows) - known + 0.5) / (known + 0.5)) * 2.2 * found / (found + norms)
        return [int(row) for row in np.argsort(-scores, kind="stable")[:TOP]]


def measure(samples: list[dict[str, Any]], embedder: Embedder) -> None:
    recalls: dict[str, list[float]] = {"strata": [], "words only": [], "stemmed BM25": [], "dense": []}
    for sample in samples:
        turns = list(turns_of(sample["conversation"]))
        index = index_of(turns, embedder)
        plain = StemmedBm25([embedded_text(turn.role, turn.date_ms, turn.text) for turn in turns])
        vectors = embedder.embed_documents([embedded_text(t.role, t.date_ms, t.text) for t in turns])
        place = {turn.id: turn.place for turn in turns}
        for question, evidence in questions_of(sample, set(place.values())):
            vector = embedder.embed_query(question)
            words = tuple(tokens(question))

            def ours(asked: QuerySignals, index: ResidentIndex = index, place: dict[str, str] = place) -> list[str]:
                return [place[row.memory_id] for row in rank(index.candidates(asked), TOP, tiers_default=True)]

            answers = {
                "strata": ours(QuerySignals(words, vector, embedder.noise)),
                "words only": ours(QuerySignals(words)),
                "stemmed BM25": [turns[row].place for row in plain.best(question)],
                "dense": [turns[int(row)].place for row in np.argsort(-(vectors @ vector), kind="stable")[:TOP]],
            }
            for name, answer in answers.items():
                recalls[name].append(len(evidence & set(answer)) / len(evidence))
    print(f"{len(recalls['strata'])} questions, {embedder.name}")
    for name, values in recalls.items():
        print(f"  {name:14} recall@{TOP} {np.mean(values):.3f}")


def time_search(rows: int, dimension: int = 384) -> tuple[float, float]:
    """CPU milliseconds of one search, median, and the index's MiB: one-passage rows, questions with stop words."""
    rng = np.random.default_rng(7)
    common = tokens("the a of to and in is that it for was on with as i you we they what did do how when my your")
    rare = [f"w{number}" for number in range(30_000)]
    weights = 1.0 / np.arange(1, len(rare) + 1)
    index = ResidentIndex(dimension)
    every = list(dict.fromkeys(common)) + rare
    index.learn([(word, number) for number, word in enumerate(every)])
    shares = np.concatenate(
        (np.full(len(every) - len(rare), 0.5 / (len(every) - len(rare))), weights / weights.sum() / 2)
    )
    drawn = rng.choice(len(every), (rows, 70), p=shares).astype(np.int32)
    passages = []
    for row in range(rows):
        ids, counts = np.unique(drawn[row], return_counts=True)
        vector = rng.standard_normal(dimension).astype(np.float16)
        passages.append(
            IndexedPassage(
                str(UUID(int=row + 1)),
                0,
                1,
                "user",
                f"s{row // 40}",
                row * 60_000,
                None,
                None,
                None,
                ids.astype(np.int32),
                counts.astype(np.uint16),
                vector,
            )
        )
    index = ResidentIndex.from_columns(dimension, list(zip(every, range(len(every)), strict=True)), passages)
    spent = []
    for number in range(30):
        asked = rng.choice(common, 6, replace=False).tolist() + [f"w{w}" for w in rng.integers(0, 200, 4)]
        random = rng.standard_normal(dimension)
        nearness = (random / np.linalg.norm(random)).astype(np.float32)
        start = time.process_time()
        rank(index.candidates(QuerySignals(tuple(asked), nearness, 0.35)), TOP, tiers_default=True)
        if number:
            spent.append(time.process_time() - start)
    return float(np.median(spent)) * 1000, index.bytes_used() / 2**20


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path)
    options.add_argument("--model", choices=("minilm-l6-v2", "wordllama-256"), default="minilm-l6-v2")
    chosen = options.parse_args()
    embedder: Embedder = MiniLmEmbedder() if chosen.model == "minilm-l6-v2" else StaticEmbedder()
    measure(json.loads(chosen.data.read_text("utf-8")), embedder)
    for rows in (1_000, 100_000):
        cpu, size = time_search(rows)
        print(f"  search among {rows:>7,} rows: {cpu:6.1f} ms CPU p50, index {size:.0f} MiB")


if __name__ == "__main__":
    main()
