"""Which embedding model a vault uses, and whether it can answer now."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.domain.errors import Conflict, InvalidRequest, StrataError, Unavailable
from shared.usecases.services import Caller, Services

if TYPE_CHECKING:
    from shared.ports.embedder import Embedder
    from shared.ports.search import Vector

# The first search after a start may wait this long for its model; then words alone answer.
LOAD_WAIT_S = 1.5


def chosen_model(services: Services, caller: Caller) -> str:
    """The model of this request: the vault's, else the one it names, else the default.

    Raises `InvalidRequest` for an unknown name, `Conflict` ``embedding_model_mismatch`` for another than the vault's.
    """
    asked, bound = caller.model, caller.record.model
    if asked is not None and asked not in services.embedders:
        known = ", ".join(sorted(services.embedders))
        raise InvalidRequest.field("embeddings", "names no embedding model of this server", f"Known models: {known}.")
    if bound is not None and asked is not None and asked != bound:
        raise _mismatch(bound)
    return bound or asked or services.policy.default_model


def bind(services: Services, caller: Caller) -> str:
    """Bind the vault to the request's model before a first write. Raises as `chosen_model`, and `StaleEpoch`."""
    model = chosen_model(services, caller)
    if caller.record.model is None:
        bound = services.directory.bind_model(caller.vault, model)
        if bound != model and caller.model is not None:
            raise _mismatch(bound)
        model = bound
    return model


def _mismatch(bound: str) -> Conflict:
    return Conflict(
        f"This vault is bound to the embedding model {bound}.",
        code="embedding_model_mismatch",
        hint="Leave the model out, or empty the vault with DELETE /v1/memory?reset=true to bind it anew.",
    )


def load_within(embedder: Embedder, seconds: float) -> bool:
    """Have the model loaded in the background and wait for it, but no longer than `seconds`."""
    if embedder.ready():
        return True
    thread = threading.Thread(target=_load, args=(embedder,), daemon=True)
    thread.start()
    thread.join(seconds)
    return embedder.ready()


def _load(embedder: Embedder) -> None:
    # A model that cannot be loaded says so when it is asked for a vector.
    try:
        embedder.load()
    except StrataError:
        return


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a model makes of a query. Without a `vector` words decide alone; `refusal` is why the model gave none.

    A model that is still being loaded refuses nothing.
    """

    vector: Vector | None = None
    noise: float = 1.0
    nearness: float = 0.0
    refusal: Unavailable | None = None


def meaning_of(services: Services, model: str, query: str) -> Meaning:
    embedder = services.embedders.get(model)
    if embedder is None:
        return Meaning()
    if not load_within(embedder, LOAD_WAIT_S):
        return Meaning()
    try:
        return Meaning(embedder.embed_query(query), embedder.noise, embedder.nearness)
    except Unavailable as refusal:
        return Meaning(refusal=refusal)
    except StrataError:
        return Meaning()
