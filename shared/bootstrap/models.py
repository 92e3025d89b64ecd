"""Which embedding models there are, by their public names. One is made when it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.settings import AWS, BEDROCK_MODELS, ENDPOINT, LOCAL_MODELS, Settings
from shared.usecases.services import Policy

if TYPE_CHECKING:
    from shared.ports.embedder import Embedder

Make = Callable[[], "Embedder"]
Connect = Callable[[str], Any]
"""A low-level client of a service, by its name."""


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


def chosen_embedders(settings: Settings, connect: Connect | None = None) -> tuple[Models, str]:
    """The models that requests may name, and the name of the default one.

    Packaged models are offered by the embedded back end, and elsewhere if the default is one; Bedrock's on AWS, and
    elsewhere likewise. `connect` makes the client that a token is fetched with, by default as the settings say.
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
        name, make = _endpoint(settings, connect)
        makers[name] = make
        default = name if settings.embedder == ENDPOINT else default
    return Models(makers), default


def policy_of(settings: Settings, default_model: str) -> Policy:
    """The operator's choices that use cases and the edge go by."""
    return Policy(
        default_model=default_model,
        lease_ms=settings.lease_seconds * 1000,
        auto_provision_keys=settings.auto_provision_keys,
        origins=settings.origins or (),
        public_url=settings.public_url,
        authorization_server=settings.authorization_server,
        calls_per_minute=settings.calls_per_minute,
    )


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
        from shared.bootstrap.session import aws_session

        return bedrock_embedder(name, region=aws_session().get_config_variable("region"), model_id=model_id)

    return make


def bedrock_calls(default: str, model_id: str | None) -> dict[str, str]:
    """Which model each id that can be called stands for: another id takes the place of the `default` model's own.

    Both are Bedrock's ids, such as ``amazon.titan-embed-text-v2:0``; a key may be an inference profile.
    """
    from shared.adapters.bedrock.models import MODELS

    called = {model.model_id: model.model_id for name, model in MODELS.items() if name != default or model_id is None}
    if model_id is not None and default in MODELS:
        called[model_id] = MODELS[default].model_id
    return called


def _endpoint(settings: Settings, connect: Connect | None) -> tuple[str, Make]:
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

        if settings.embeddings_secret is None:
            return openai_embedder(described)
        from shared.adapters.secrets_manager.token import SecretToken
        from shared.bootstrap.aws import connection

        client = partial(connect or connection(settings), "secretsmanager")
        return openai_embedder(described, SecretToken(client, settings.embeddings_secret))

    return described.name, make
