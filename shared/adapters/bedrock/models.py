"""The Bedrock models that vaults can be bound to: their limits and the shapes of their requests and answers.

Shapes and limits are those of the Bedrock user guide's pages on Titan Text Embeddings and on Cohere Embed v3 and v4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shared.domain.errors import InvalidRequest

Request = Callable[[Sequence[str], bool, int], dict[str, object]]
"""From texts, whether they are queries, and the dimension."""


@dataclass(frozen=True, slots=True)
class BedrockModel:
    """`model_id` can be replaced by an inference profile's. A text is cut to `text_bytes`, a call holds `texts`."""

    name: str
    model_id: str
    dimension: int
    noise: float
    texts: int
    text_bytes: int
    request: Request
    rows: Callable[[Mapping[str, object]], object]


def _titan_request(texts: Sequence[str], query: bool, dimension: int) -> dict[str, object]:
    (text,) = texts
    return {"inputText": text, "dimensions": dimension, "normalize": True}


def _titan_rows(answer: Mapping[str, object]) -> object:
    return [answer.get("embedding")]


def _cohere_v3_request(texts: Sequence[str], query: bool, dimension: int) -> dict[str, object]:
    return {"texts": list(texts), "input_type": _input_type(query), "truncate": "END"}


def _cohere_v4_request(texts: Sequence[str], query: bool, dimension: int) -> dict[str, object]:
    return {
        "texts": list(texts),
        "input_type": _input_type(query),
        "truncate": "RIGHT",
        "embedding_types": ["float"],
        "output_dimension": dimension,
    }


def _input_type(query: bool) -> str:
    return "search_query" if query else "search_document"


def _cohere_rows(answer: Mapping[str, object]) -> object:
    """Both answers of the model: a plain list, or lists by type where types were asked for."""
    rows = answer.get("embeddings")
    return rows.get("float") if isinstance(rows, Mapping) else rows


# The noise levels are estimates, not measured on these models: published cosines of unrelated texts are near 0.05 for
# Titan v2 and 0.15 to 0.3 for Cohere; conversations about everyday things lie nearer to each other than such texts.
# A token is at least a byte, so 8,192 bytes keep any text within the 8,192 tokens that Titan takes.
MODELS = {
    model.name: model
    for model in (
        *(
            BedrockModel(
                f"titan-embed-text-v2-{dimension}",
                "amazon.titan-embed-text-v2:0",
                dimension,
                noise=0.25,
                texts=1,
                text_bytes=8192,
                request=_titan_request,
                rows=_titan_rows,
            )
            for dimension in (1024, 512, 256)
        ),
        BedrockModel(
            "cohere-embed-multilingual-v3-1024",
            "cohere.embed-multilingual-v3",
            1024,
            noise=0.4,
            texts=96,
            text_bytes=2048,
            request=_cohere_v3_request,
            rows=_cohere_rows,
        ),
        *(
            BedrockModel(
                f"cohere-embed-v4-{dimension}",
                "cohere.embed-v4:0",
                dimension,
                noise=0.3,
                texts=96,
                text_bytes=8192,
                request=_cohere_v4_request,
                rows=_cohere_rows,
            )
            for dimension in (1536, 1024, 512, 256)
        ),
    )
}


def model_named(name: str) -> BedrockModel:
    """Raises `InvalidRequest` for a name that is none of `MODELS`."""
    if name not in MODELS:
        raise InvalidRequest.field("embeddings", "names no Bedrock model", f"Known models: {', '.join(MODELS)}.")
    return MODELS[name]
