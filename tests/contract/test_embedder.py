"""What every embedder promises, whether its model is in this process, on Bedrock or behind an HTTP endpoint."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from shared.adapters.bedrock.models import MODELS
from shared.ports.embedder import Embedder
from tests.contract.embedding_rigs import LOCAL, rigged

TEXTS = [
    "The cat sat on the warm window sill.",
    "A kitten was resting near the glass.",
    "Quarterly tax filings are due in April.",
    "東京タワー 👍",
    "word " * 600,
    "unterbrochen\n\nund weiter\t…",
    "長" * 5000,
    " ",
    "",
]
MEANT = TEXTS[:6]


@pytest.fixture(params=[*LOCAL, *MODELS, pytest.param("openai", marks=pytest.mark.loopback)])
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    with rigged(request.param) as embedder:
        yield embedder


def test_vectors_have_unit_length_and_the_stated_shape(embedder: Embedder) -> None:
    vectors = embedder.embed_documents(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    for text in TEXTS:
        vector = embedder.embed_query(text)
        assert vector.dtype == np.float32
        assert vector.shape == (embedder.dimension,)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_no_texts_have_no_vectors(embedder: Embedder) -> None:
    vectors = embedder.embed_documents([])
    assert vectors.dtype == np.float32
    assert vectors.shape == (0, embedder.dimension)


def test_a_vector_depends_on_its_text_alone(embedder: Embedder) -> None:
    together = embedder.embed_documents(TEXTS)
    assert np.array_equal(together, embedder.embed_documents(TEXTS[::-1])[::-1])
    for text, vector in zip(TEXTS, together, strict=True):
        assert np.array_equal(embedder.embed_documents([text])[0], vector)
        assert np.array_equal(embedder.embed_query(text), embedder.embed_query(text))


def test_a_text_is_the_best_answer_to_itself(embedder: Embedder) -> None:
    documents = embedder.embed_documents(MEANT)
    queries = np.stack([embedder.embed_query(text) for text in MEANT])
    assert np.argmax(queries @ documents.T, axis=1).tolist() == list(range(len(MEANT)))


@pytest.mark.slow
def test_many_texts_keep_their_order(embedder: Embedder) -> None:
    texts = [f"note {number} about subject {number * 7}" for number in range(230)]
    vectors = embedder.embed_documents(texts)
    assert vectors.shape == (230, embedder.dimension)
    for number in (0, 63, 64, 95, 96, 128, 192, 229):
        assert np.array_equal(vectors[number], embedder.embed_documents([texts[number]])[0])


@pytest.mark.slow
def test_long_texts_are_embedded_in_parts(embedder: Embedder) -> None:
    texts = [f"{number} " + "long " * 400 for number in range(70)]
    vectors = embedder.embed_documents(texts)
    assert np.array_equal(vectors[69], embedder.embed_documents(texts[69:])[0])


def test_threads_share_an_embedder(embedder: Embedder) -> None:
    expected = embedder.embed_documents(TEXTS[:3])
    wanted = embedder.embed_query(TEXTS[0])
    answers: list[bool] = []

    def embed() -> None:
        same = np.array_equal(embedder.embed_documents(TEXTS[:3]), expected)
        answers.append(same and np.array_equal(embedder.embed_query(TEXTS[0]), wanted))

    threads = [threading.Thread(target=embed) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 6


def test_it_is_ready_once_loaded_and_has_a_noise_level(embedder: Embedder) -> None:
    embedder.load()
    assert embedder.ready()
    assert 0 < embedder.noise < 1


def test_names_say_which_models_differ() -> None:
    named = {}
    for rig in (*LOCAL, *MODELS):
        with rigged(rig) as embedder:
            named[embedder.name] = embedder.dimension
    assert named == {
        "minilm-l6-v2": 384,
        "wordllama-256": 256,
        "hashed-64": 64,
        "titan-embed-text-v2-1024": 1024,
        "titan-embed-text-v2-512": 512,
        "titan-embed-text-v2-256": 256,
        "cohere-embed-multilingual-v3-1024": 1024,
        "cohere-embed-v4-1536": 1536,
        "cohere-embed-v4-1024": 1024,
        "cohere-embed-v4-512": 512,
        "cohere-embed-v4-256": 256,
    }
