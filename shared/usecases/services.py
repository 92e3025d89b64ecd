"""What every use case is given: the ports, the operator's choices, and who is calling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.domain.batch import LEASE_MS

if TYPE_CHECKING:
    from shared.domain.memory import VaultRef
    from shared.ports.clock import Clock, Ids
    from shared.ports.dead_letters import DeadLetters
    from shared.ports.directory import Directory, KeyRecord, VaultRecord
    from shared.ports.embedder import Embedder
    from shared.ports.search import SearchIndex
    from shared.ports.store import ChangeFeed, MemoryStore
    from shared.ports.telemetry import Telemetry
    from shared.ports.usage import UsageMeter

Answer = dict[str, object]
"""A JSON object as it goes over the wire."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's choices. `default_model` names the embedder that new vaults are bound to.

    `origins`, `public_url`, `authorization_server` and `calls_per_minute` are those of the settings.
    """

    default_model: str
    lease_ms: int = LEASE_MS
    auto_provision_keys: bool = False
    origins: tuple[str, ...] = ()
    public_url: str | None = None
    authorization_server: str | None = None
    calls_per_minute: int = 1_000


@dataclass(frozen=True, slots=True)
class Services:
    """Everything behind the ports. `embedders` maps a model's public name to the model; it is never empty."""

    store: MemoryStore
    directory: Directory
    index: SearchIndex
    embedders: Mapping[str, Embedder]
    feed: ChangeFeed
    usage: UsageMeter
    dead_letters: DeadLetters
    telemetry: Telemetry
    clock: Clock
    ids: Ids
    policy: Policy


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated request: the key, its vault as read for this request, and what narrows it.

    `scopes` are the key's after its suffix, `masked` is the key fit for showing, `model` the embedding model that the
    request names, `session_id` the session it names (body before header).
    """

    key: KeyRecord
    record: VaultRecord
    scopes: frozenset[str]
    masked: str
    session_id: str | None = None
    model: str | None = None

    @property
    def vault(self) -> VaultRef:
        return self.record.ref
