"""A model without a model: words hashed to signs. For tests that need vectors at once and the same ones every time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shared.retrieval.tokens import tokens


class HashingEmbedder:
    """Texts that share words are near; nothing else is."""

    name = "hashed-64"
    dimension = 64
    noise = 0.45
    nearness = 0.5

    def ready(self) -> bool:
        return True

    def load(self) -> None:
        return None

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            for token in tokens(text) or [""]:
                digest = hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=self.dimension // 8).digest()
                vectors[row] += np.unpackbits(np.frombuffer(digest, np.uint8)) * np.float32(2) - np.float32(1)
            if not vectors[row].any():
                vectors[row, 0] = 1.0
            vectors[row] /= np.linalg.norm(vectors[row])
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        vector: npt.NDArray[np.float32] = self.embed_documents([text])[0]
        return vector
