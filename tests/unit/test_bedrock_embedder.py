"""Bedrock's faults: what is tried again, how often and how long, and what is said in the end."""

from __future__ import annotations

import json

import botocore.exceptions as faults
import numpy as np
import pytest

from shared.adapters.bedrock.embedder import BedrockEmbedder, bedrock_embedder
from shared.adapters.bedrock.models import MODELS
from shared.domain.errors import InvalidRequest, Unavailable
from shared.settings import BEDROCK_MODELS
from tests.contract.embedding_rigs import FakeBedrock, VirtualTime, bedrock, service_error

TITAN = "titan-embed-text-v2-256"
COHERE = "cohere-embed-multilingual-v3-1024"
URL = "https://example.com"

PASSING = [
    service_error("ThrottlingException", 429),
    service_error("ModelNotReadyException", 429),
    service_error("ModelTimeoutException", 408),
    service_error("ModelErrorException", 424),
    service_error("InternalServerException", 500),
    service_error("ServiceUnavailableException", 503),
    faults.ReadTimeoutError(endpoint_url=URL),
    faults.ConnectTimeoutError(endpoint_url=URL),
    faults.EndpointConnectionError(endpoint_url=URL),
    faults.ConnectionClosedError(endpoint_url=URL),
]
LASTING = [
    service_error("AccessDeniedException", 403),
    service_error("ResourceNotFoundException", 404),
    service_error("ValidationException", 400),
    service_error("ServiceQuotaExceededException", 400),
    faults.NoCredentialsError(),
    faults.NoRegionError(),
]


def kind(error: Exception) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, faults.ClientError) else type(error).__name__


@pytest.mark.parametrize("name", [TITAN, COHERE])
@pytest.mark.parametrize("fault", PASSING, ids=kind)
def test_a_passing_fault_is_tried_again(name: str, fault: Exception) -> None:
    service, time = FakeBedrock(), VirtualTime()
    service.failures = [fault] * 3
    vectors = bedrock(name, service, time).embed_documents(["one"])
    assert np.array_equal(vectors, bedrock(name).embed_documents(["one"]))
    assert time.slept == pytest.approx([0.2, 0.4, 0.8])
    assert len({json.dumps(call) for call in service.calls}) == 1


@pytest.mark.parametrize("fault", PASSING, ids=kind)
def test_a_fault_that_stays_ends_in_unavailable(fault: Exception) -> None:
    service, time = FakeBedrock(), VirtualTime()
    service.failures = [fault] * 100
    with pytest.raises(Unavailable) as caught:
        bedrock(TITAN, service, time).embed_documents(["one"])
    assert (caught.value.code, caught.value.retry_after) == ("embedding_unavailable", 5)
    assert kind(fault) in caught.value.message
    assert len(service.calls) == 6
    assert sum(time.slept) == pytest.approx(6.2)


@pytest.mark.parametrize("fault", LASTING, ids=kind)
def test_a_lasting_fault_is_not_tried_again(fault: Exception) -> None:
    service, time = FakeBedrock(), VirtualTime()
    service.failures = [fault]
    with pytest.raises(Unavailable) as caught:
        bedrock(COHERE, service, time).embed_documents(["one"])
    assert (caught.value.code, caught.value.retry_after) == ("embedding_unavailable", 5)
    assert kind(fault) in caught.value.message
    assert "words of the text" not in f"{caught.value.message} {caught.value.hint}"
    assert (len(service.calls), time.slept) == (1, [])


def test_the_service_says_when_to_come_back() -> None:
    service, time = FakeBedrock(), VirtualTime()
    service.failures = [service_error("ThrottlingException", 429, {"Retry-After": "2"})]
    bedrock(TITAN, service, time).embed_documents(["one"])
    assert time.slept == [2.0]
    service.failures = [service_error("ThrottlingException", 429, {"retry-after": "40.5"})]
    with pytest.raises(Unavailable) as caught:
        bedrock(TITAN, service, time).embed_documents(["one"])
    assert caught.value.retry_after == 41
    assert time.slept == [2.0]


def test_a_query_gives_up_sooner_than_documents() -> None:
    service, time = FakeBedrock(), VirtualTime()
    service.failures = [service_error("ThrottlingException", 429)] * 100
    with pytest.raises(Unavailable):
        bedrock(TITAN, service, time).embed_query("one")
    assert time.slept == pytest.approx([0.2, 0.4, 0.8])


def test_one_failing_batch_fails_the_call_in_bounded_time() -> None:
    service, time = FakeBedrock(), VirtualTime()
    service.failures = [service_error("ThrottlingException", 429)] * 5000
    with pytest.raises(Unavailable):
        bedrock(TITAN, service, time).embed_documents([f"text {number}" for number in range(500)])
    # Eight at once, six tries each.
    assert len(service.calls) <= 48


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "Expecting value"),
        (b"{\xff}", "decode"),
        (b"[]", "no JSON object"),
        (b"{}", "no vectors for 2 texts"),
        (b'{"embeddings": {"int8": [[1], [2]]}}', "no vectors for 2 texts"),
        (json.dumps({"embeddings": [[1.0] * 1024]}).encode(), "1 vectors for 2 texts"),
        (json.dumps({"embeddings": [[1.0] * 1024] * 3}).encode(), "3 vectors for 2 texts"),
        (json.dumps({"embeddings": [[1.0] * 512] * 2}).encode(), "512 numbers in place of 1024"),
        (json.dumps({"embeddings": [[0.0] * 1024] * 2}).encode(), "without a direction"),
        (json.dumps({"embeddings": [["1"] * 1024] * 2}).encode(), "no list of numbers"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error(answer: bytes, problem: str) -> None:
    service, time = FakeBedrock(), VirtualTime()
    service.answer = lambda _body: answer
    with pytest.raises(Unavailable) as caught:
        bedrock(COHERE, service, time).embed_documents(["one", "two"])
    assert problem in caught.value.message
    assert (caught.value.code, len(service.calls)) == ("embedding_unavailable", 1)


def test_titan_takes_one_text_a_call() -> None:
    service = FakeBedrock()
    bedrock(TITAN, service).embed_documents(["one", "two"])
    bedrock(TITAN, service).embed_query("three")
    assert sorted(service.calls, key=lambda call: str(call["inputText"])) == [
        {"modelId": "amazon.titan-embed-text-v2:0", "inputText": text, "dimensions": 256, "normalize": True}
        for text in ("one", "three", "two")
    ]


def test_cohere_takes_96_texts_a_call_and_knows_queries() -> None:
    service = FakeBedrock()
    embedder = bedrock(COHERE, service)
    embedder.embed_documents([f"text {number}" for number in range(200)])
    embedder.embed_query("words")
    documents = [call for call in service.calls if call["input_type"] == "search_document"]
    assert sorted(len(call["texts"]) for call in documents) == [8, 96, 96]
    assert service.calls[-1] == {
        "modelId": "cohere.embed-multilingual-v3",
        "texts": ["words"],
        "input_type": "search_query",
        "truncate": "END",
    }


def test_an_inference_profile_can_stand_for_the_model() -> None:
    client = FakeBedrock()
    client.answer = lambda body: json.dumps({"embeddings": {"float": [[1.0] * body["output_dimension"]]}}).encode()
    embedder = BedrockEmbedder(MODELS["cohere-embed-v4-512"], lambda _timeout: client, model_id="eu.cohere.embed-v4:0")
    assert embedder.embed_query("words").shape == (512,)
    assert client.calls[0]["modelId"] == "eu.cohere.embed-v4:0"


def test_clients_are_made_on_first_use_and_kept() -> None:
    made: list[float] = []

    def connect(timeout_s: float) -> FakeBedrock:
        made.append(timeout_s)
        return FakeBedrock()

    embedder = BedrockEmbedder(MODELS[TITAN], connect, patience=VirtualTime().patience)
    embedder.load()
    assert embedder.ready()
    assert made == []
    for _ in range(2):
        embedder.embed_documents(["one", "two"])
        embedder.embed_query("three")
    # Queries must not wait as long as documents may.
    assert made == [10.0, 2.0]


def test_the_settings_offer_these_models() -> None:
    assert tuple(MODELS) == BEDROCK_MODELS


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        bedrock_embedder("titan-embed-text-v9")
