"""What the models with files share: they are read on first use, once, whichever thread comes first."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Model = TypeVar("Model")


class LazyEmbedder(ABC, Generic[Model]):
    """Loads on first use or by `load`. `Model` is whatever `_read` brings into memory."""

    name: str
    dimension: int
    noise: float
    nearness: float

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Model | None = None

    def ready(self) -> bool:
        return self._model is not None

    def load(self) -> None:
        self._loaded()

    @abstractmethod
    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]: ...

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        vector: npt.NDArray[np.float32] = self.embed_documents([text])[0]
        return vector

    @abstractmethod
    def _read(self) -> Model:
        """The model from its files. Raises `Unavailable` when they are missing or not the pinned ones."""

    def _loaded(self) -> Model:
        model = self._model
        if model is not None:
            return model
        with self._lock:
            if self._model is None:
                self._model = self._read()
            return self._model
