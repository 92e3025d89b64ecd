"""Retrieval quality on LoCoMo, where the data set was given."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

from shared.adapters.local_embedder.minilm import MiniLmEmbedder
from tests.bench.locomo import measure
from tests.bench.report import Row

TARGET = 0.78


def run(data: Path) -> list[Row]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        measure(json.loads(data.read_text("utf-8")), MiniLmEmbedder())
    recall = {
        name.strip(): float(value) for name, value in re.findall(r"^ +(\S.*?) +recall@10 (\S+)", said.getvalue(), re.M)
    }
    ours, plain = recall["strata"], recall["stemmed BM25"]
    return [
        Row(
            "LoCoMo, turns found among the first ten (categories 1 to 4)",
            f"{ours:.3f}",
            f"{plain:.3f}, stemmed BM25; {recall['dense']:.3f}, vectors alone",
            f"{ours / plain:.2f}×",
            f"≥ {TARGET}",
            ours >= TARGET,
        )
    ]


NOTE = (
    "LoCoMo: share of a question's evidence turns among the first ten rows, averaged over questions. One vault per"
    " conversation, one memory per turn, default model. The data set is not part of this project."
)
