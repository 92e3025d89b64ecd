"""The AWS back end: DynamoDB holds the truth, OpenSearch ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from shared.adapters.dynamodb.directory import DynamoDirectory
from shared.adapters.dynamodb.store import DynamoStore
from shared.adapters.dynamodb.stream import Delivered, StreamFeed
from shared.adapters.dynamodb.table import Table
from shared.adapters.dynamodb.usage import DynamoUsage
from shared.adapters.system.clock import RandomIds, SystemClock
from shared.bootstrap.models import Connect, chosen_embedders, policy_of
from shared.bootstrap.telemetry import chosen_telemetry
from shared.domain.errors import NotFound, Unavailable
from shared.domain.memory import Memory, VaultRef
from shared.settings import EMBEDDERS, ENDPOINT, Settings
from shared.usecases.services import Services

if TYPE_CHECKING:
    from shared.adapters.opensearch.index import OpenSearchIndex
    from shared.adapters.opensearch.transport import Transport
    from shared.ports.dead_letters import DeadLetters
    from shared.ports.embedder import Embedder
    from shared.ports.search import Filters, Hit, IndexStatus, Passage, Query, RepairableIndex, Vector

CONNECT_S, READ_S = 1.0, 3.0
CONNECTIONS = 50
INDEXES = "strata"
EMULATED_REGION = "us-east-1"
EMULATED_SECRET = "emulator"


def connection(settings: Settings) -> Connect:
    """Clients that never try again by themselves: whoever asks knows what may be repeated."""
    from botocore.config import Config

    from shared.bootstrap.session import aws_session

    session = aws_session()
    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=CONNECTIONS,
    )

    def connect(service: str) -> Any:
        if settings.aws_endpoint is None:
            return session.create_client(service, config=config)
        return session.create_client(
            service,
            region_name=session.get_config_variable("region") or EMULATED_REGION,
            endpoint_url=settings.aws_endpoint,
            aws_access_key_id=EMULATED_SECRET,
            aws_secret_access_key=EMULATED_SECRET,
            config=config,
        )

    return connect


def _setting_of(model: str) -> str:
    """What `STRATA_EMBEDDER` may have been for a model: only those behind an endpoint have names of their own."""
    return model if model in EMBEDDERS else ENDPOINT


class LazyIndex:
    """`shared.ports.search.SearchIndex` that is made when it is first used: most functions never search."""

    def __init__(self, make: Callable[[], OpenSearchIndex]) -> None:
        self._make = make
        self._made: OpenSearchIndex | None = None
        self._lock = threading.Lock()

    def made(self) -> OpenSearchIndex:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made.close()
                self._made = None

    def put_words(self, vault: VaultRef, memories: Sequence[Memory]) -> None:
        self.made().put_words(vault, memories)

    def remove(self, vault: VaultRef, ids: Sequence[str]) -> None:
        self.made().remove(vault, ids)

    def without_vectors(self, vault: VaultRef, limit: int) -> tuple[Passage, ...]:
        return self.made().without_vectors(vault, limit)

    def put_vectors(self, vault: VaultRef, passages: Sequence[Passage], vectors: Vector) -> None:
        self.made().put_vectors(vault, passages, vectors)

    def search(self, vault: VaultRef, query: Query, filters: Filters, limit: int) -> tuple[Hit, ...]:
        return self.made().search(vault, query, filters, limit)

    def status(self, vault: VaultRef) -> IndexStatus:
        return self.made().status(vault)

    def waiting(self, limit: int) -> tuple[VaultRef, ...]:
        return self.made().waiting(limit)

    def purge(self, vault_id: str, below_epoch: int) -> None:
        self.made().purge(vault_id, below_epoch)


class Aws:
    """The back end of one table and one search domain. Opens nothing before it is first used.

    With `follow` it reads the table's stream itself, as a single local process does, and what it writes to the search
    store is found at once; without, the stream is delivered to `functions/indexer`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        connect: Connect | None = None,
        embedders: Mapping[str, Embedder] | None = None,
        follow: bool = False,
        indexes: str = INDEXES,
        layout: int | None = None,
    ) -> None:
        """`indexes` is what the names of all search indexes begin with, `layout` another release's layout of them."""
        self._settings = settings
        self._connect = connect or connection(settings)
        self._follow = follow
        self.indexes = indexes
        self._layout = layout
        name = settings.table or ""
        self.table = Table(self._connect("dynamodb"), name)
        self.directory = DynamoDirectory(self.table)
        self.feed = StreamFeed(self._connect("dynamodbstreams"), name) if follow else Delivered()
        self.store = DynamoStore(self.table, self.feed.note, self.directory.purged)
        self.clock = SystemClock()
        offered, self._default = chosen_embedders(settings, self._connect)
        self._embedders: Mapping[str, Embedder] = offered if embedders is None else dict(embedders)
        self.index = LazyIndex(self._open_index)
        self.services = Services(
            store=self.store,
            directory=self.directory,
            index=self.index,
            embedders=self._embedders,
            feed=self.feed,
            usage=DynamoUsage(self.table),
            dead_letters=self._letters(),
            telemetry=chosen_telemetry(settings),
            clock=self.clock,
            ids=RandomIds(self.clock),
            policy=policy_of(settings, self._default),
        )

    def _letters(self) -> DeadLetters:
        if self._settings.dead_letters is None:
            from shared.adapters.system.letters import MemoryLetters

            return MemoryLetters()
        from shared.adapters.sqs.letters import SqsLetters

        return SqsLetters(self._connect("sqs"), self._settings.dead_letters)

    def transport(self) -> Transport:
        """The way to the search store, signed where it is a domain."""
        from shared.adapters.opensearch.transport import Transport

        url = self._settings.search_url or ""
        if not url.startswith("https:"):
            return Transport(url)
        from shared.bootstrap.session import aws_session

        session = aws_session()
        return Transport(url, session.get_credentials(), session.get_config_variable("region") or "")

    def _open_index(self) -> OpenSearchIndex:
        from shared.adapters.opensearch.index import OpenSearchIndex

        return OpenSearchIndex(
            self.transport(), self.store, self.model, self.clock.now_ms, self._follow, self.indexes, self.layout
        )

    @property
    def layout(self) -> int:
        """The version of the indexes' layout that this release reads and writes."""
        from shared.adapters.opensearch.mapping import VERSION

        return self._layout or VERSION

    def stored(self) -> list[VaultRef]:
        """Every vault content that the table holds; reads all of it."""
        return list(self._contents())

    def unfinished(self) -> list[VaultRef]:
        """Every content: nothing here remembers which of them wait."""
        return self.stored()

    def has_vaults(self) -> bool:
        """Reads the table until it meets one."""
        return next(self._contents(), None) is not None

    def _contents(self) -> Iterator[VaultRef]:
        from shared.adapters.dynamodb.vaults import stored_contents

        return stored_contents(self._connect("dynamodb"), self.table.name)

    @property
    def repairable(self) -> RepairableIndex:
        return self.index.made()

    def drop_strays(self) -> int:
        """Remove contents from the search store that no vault has any more; returns how many there were."""
        from shared.adapters.opensearch.maintain import contents

        found = 0
        transport = self.transport()
        try:
            for vault in list(contents(transport, f"{self.indexes}-*")):
                try:
                    kept = self.directory.vault(vault.vault_id).epoch
                except NotFound:
                    kept = vault.epoch + 1
                if vault.epoch < kept:
                    self.index.purge(vault.vault_id, kept)
                    found += 1
        finally:
            transport.close()
        return found

    def kept_changes(self) -> StreamFeed:
        """The table's stream from its beginning: all changes of a day, whoever has seen them."""
        return StreamFeed(self._connect("dynamodbstreams"), self.table.name)

    def others(self) -> Sequence[Any]:
        """Records of the stream that ask for something else than indexing, each handed out once."""
        return self.feed.others() if isinstance(self.feed, StreamFeed) else ()

    def models(self) -> list[tuple[str, int]]:
        """Name and dimension of every model that a vault may be bound to."""
        return [(name, self._embedders[name].dimension) for name in self._embedders]

    def provision(self) -> None:
        """Make the table and the indexes of all models that are missing: for an emulator, which begins empty."""
        from shared.bootstrap.provisioning import create_table

        create_table(self._connect("dynamodb"), self.table.name)
        self.create_indexes()

    def create_indexes(self, replicas: int = 0) -> list[str]:
        """Have a search index for every model, an empty one where it is missing; returns the names of all."""
        from shared.bootstrap.provisioning import create_indexes

        return create_indexes(self, replicas)

    def model(self, vault: VaultRef) -> tuple[str, int]:
        """Name and dimension of the model that a vault's vectors come from.

        Raises `Unavailable` ``embedding_unavailable`` when it is none of those that this process offers.
        """
        try:
            name = self.directory.model(vault)
        except NotFound:
            name = None
        name = name or self._default
        if name not in self._embedders:
            raise Unavailable(
                f"A vault was written with the embedding model {name}, which is not offered here.",
                code="embedding_unavailable",
                hint=f"Start with the settings it was written under, such as STRATA_EMBEDDER={_setting_of(name)}.",
                retry_after=60,
            )
        return name, self._embedders[name].dimension

    @staticmethod
    def emulated_queue(settings: Settings, name: str) -> str:
        """The address of a queue on the emulator, made when it is missing."""
        from shared.bootstrap.provisioning import create_queue

        return create_queue(connection(settings)("sqs"), name)

    def close(self) -> None:
        self.index.close()

    def __enter__(self) -> Aws:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
