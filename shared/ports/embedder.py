"""A model that turns text into vectors whose cosine says how near two meanings are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Vectors: TypeAlias = "npt.NDArray[np.float32]"


SENTENCE_MODEL = 0.5
"""The `nearness` of a model that was trained on sentences, unless it was measured otherwise."""


class Embedder(Protocol):
    """Safe to call from several threads.

    A text's vector depends on nothing but the text: not on what else is in the batch, not on the moment.
    Raises `Unavailable` ``embedding_unavailable`` when the model cannot answer.
    """

    @property
    def name(self) -> str:
        """The name vaults are bound to; another model or another dimension has another name."""
        ...

    @property
    def dimension(self) -> int: ...

    @property
    def noise(self) -> float:
        """The cosine below which nearness means nothing: almost all unrelated pairs lie below it."""
        ...

    @property
    def nearness(self) -> float:
        """The weight of nearness in a score, 0..1: how far this model is to be trusted beside the words."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One vector of unit length for each text, shape ``(len(texts), dimension)``."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """One vector of unit length, shape ``(dimension,)``."""
        ...

    def ready(self) -> bool:
        """Whether an embedding would start at once, without the model being loaded first."""
        ...

    def load(self) -> None:
        """Bring the model into memory; returns when it is there. Embedding does this by itself."""
        ...
