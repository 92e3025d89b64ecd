"""Which embedding models there are, by their public names. One is made when it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from shared.settings import AWS, BEDROCK_MODELS, ENDPOINT, LOCAL_MODELS, Settings

if TYPE_CHECKING:
    from shared.ports.embedder import Embedder

Make = Callable[[], "Embedder"]


class Models(Mapping[str, "Embedder"]):
    """Models by name, each made once."""

    def __init__(self, makers: Mapping[str, Make]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, Embedder] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Embedder:
        make = self._makers[name]
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def local_embedders() -> Models:
    """Every model that ships in a package. None is loaded before it is asked."""
    return Models({name: _local(name) for name in LOCAL_MODELS})


def chosen_embedders(settings: Settings) -> tuple[Models, str]:
    """The models that requests may name, and the name of the default one.

    Packaged models are offered by the embedded back end, and elsewhere if the default is one; Bedrock's on AWS, and
    elsewhere likewise.
    """
    makers: dict[str, Make] = {}
    if settings.backend != AWS or settings.embedder in LOCAL_MODELS:
        makers |= {name: _local(name) for name in LOCAL_MODELS}
    if settings.backend == AWS or settings.embedder in BEDROCK_MODELS:
        # Another id stands for the chosen model alone.
        ids = {settings.embedder: settings.bedrock_model_id}
        makers |= {name: _bedrock(name, ids.get(name)) for name in BEDROCK_MODELS}
    default = settings.embedder
    if settings.embeddings_url is not None:
        name, make = _endpoint(settings)
        makers[name] = make
        default = name if settings.embedder == ENDPOINT else default
    return Models(makers), default


def _local(name: str) -> Make:
    def make() -> Embedder:
        if name == "minilm-l6-v2":
            from shared.adapters.local_embedder.minilm import MiniLmEmbedder

            return MiniLmEmbedder()
        if name == "wordllama-256":
            from shared.adapters.local_embedder.static import StaticEmbedder

            return StaticEmbedder()
        from shared.adapters.local_embedder.hashing import HashingEmbedder

        return HashingEmbedder()

    return make


def _bedrock(name: str, model_id: str | None) -> Make:
    def make() -> Embedder:
        from shared.adapters.bedrock.embedder import bedrock_embedder

        return bedrock_embedder(name, model_id=model_id)

    return make


def _endpoint(settings: Settings) -> tuple[str, Make]:
    from shared.adapters.openai_embeddings.endpoint import Endpoint

    described = Endpoint(
        url=settings.embeddings_url or "",
        model=settings.embeddings_model or "",
        dimension=settings.embeddings_dimension or 0,
        noise=settings.embeddings_noise,
        key=settings.embeddings_key,
        shorten=settings.embeddings_shorten,
    )

    def make() -> Embedder:
        from shared.adapters.openai_embeddings.embedder import openai_embedder

        return openai_embedder(described)

    return described.name, make
