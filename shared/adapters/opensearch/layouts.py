"""A model's indexes of other layouts than this release's: those of an upgrade to come or gone by."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from shared.adapters.opensearch import mapping
from shared.adapters.opensearch.documents import content, document_id, vault_of
from shared.adapters.opensearch.maintain import NEVER_AGAIN, behind
from shared.adapters.opensearch.transport import Json, Rejected, Transport, unavailable
from shared.domain.errors import NotFound, StaleEpoch, Unavailable
from shared.domain.memory import VaultRef
from shared.ports.search import RowSource

KNOWN_FOR_S = 60.0
"""How long a writer believes what it found; an index that comes meanwhile is put right by `reconcile`."""
AT_ONCE = 1_000
SAMPLE = 200


@dataclass(frozen=True, slots=True)
class Index:
    """One index by its own name, and whatever stands for it."""

    name: str
    layout: int
    aliases: frozenset[str]


def found(transport: Transport, model: str, dimension: int, prefix: str) -> list[Index]:
    """Every index of a model, of whatever layout, oldest layout first."""
    stem = mapping.stem(model, dimension, prefix)
    # Another model's name may go on like this one's: "a" with 64 numbers, and "a-64-v1" with three.
    shape = re.compile(re.escape(stem) + r"-v(\d+)-(\d+)")
    try:
        answer = transport.request("GET", f"/{stem}-v*/_alias")
    except Rejected as error:
        raise unavailable(f"refused a request ({error.status} {error.kind})") from error
    every = [
        (int(match[1]), int(match[2]), Index(name, int(match[1]), frozenset(held["aliases"])))
        for name, held in answer.items()
        if (match := shape.fullmatch(name))
    ]
    return [index for _, _, index in sorted(every, key=lambda each: each[:2])]


class OtherLayouts:
    """Where else the rows of one model's vaults may still be found."""

    def __init__(self, transport: Transport, model: str, dimension: int, prefix: str, version: int) -> None:
        self._transport, self._version = transport, version
        self._model, self._dimension, self._prefix = model, dimension, prefix
        self._known: tuple[str, ...] = ()
        self._until = 0.0

    def erase(self, vault: VaultRef, ids: Collection[str]) -> None:
        """Remove the passages of rows that are gone, from every other layout's index.

        Words and vectors that neighbours have of them stay until that index is repaired or dropped: only its own
        release can write there, and it may be in use.
        """
        for name in self._others():
            try:
                self._erase(name, vault, ids)
            except Unavailable:
                self._until = 0.0
                if name in self._others():
                    raise

    def _others(self) -> tuple[str, ...]:
        if time.monotonic() >= self._until:
            every = found(self._transport, self._model, self._dimension, self._prefix)
            self._known = tuple(index.name for index in every if index.layout != self._version)
            self._until = time.monotonic() + KNOWN_FOR_S
        return self._known

    def _erase(self, name: str, vault: VaultRef, ids: Collection[str]) -> None:
        of_them = [{"term": {"content": content(vault)}}, {"terms": {"memory": list(ids)}}]
        body: Json = {"size": AT_ONCE, "_source": False, "query": {"bool": {"filter": of_them}}}
        version = {"routing": vault.vault_id, "version": NEVER_AGAIN, "version_type": "external_gte"}
        while True:
            self._transport.refresh(name)
            hits = self._transport.search(name, vault.vault_id, body)["hits"]["hits"]
            if not hits:
                return
            lines: list[tuple[Json, str | None]] = [({"delete": {"_id": hit["_id"], **version}}, None) for hit in hits]
            self._transport.bulk(name, lines, False, alias=False)


def lacks(transport: Transport, rows: RowSource, alias: str, other: str) -> bool:
    """Whether the newest living rows of another layout's index are not all in the one behind the alias.

    Then its release still writes there, or what it wrote was never brought over.
    """
    if behind(transport, alias) is None:
        return True
    transport.refresh(f"{alias},{other}")
    body: Json = {
        "size": SAMPLE,
        "_source": False,
        "docvalue_fields": ["content", "memory"],
        "query": {"match_all": {}},
        "sort": [{"memory": "desc"}],
    }
    by_vault: dict[VaultRef, set[str]] = {}
    for hit in transport.search(other, None, body)["hits"]["hits"]:
        vault = vault_of(hit["fields"]["content"][0])
        by_vault.setdefault(vault, set()).add(hit["fields"]["memory"][0])
    return any(_missing(transport, rows, alias, vault, sorted(ids)) for vault, ids in by_vault.items())


def _missing(transport: Transport, rows: RowSource, alias: str, vault: VaultRef, ids: Sequence[str]) -> bool:
    try:
        living = rows.get(vault, ids)
    except (StaleEpoch, NotFound):
        return False
    names = [document_id(vault, memory_id, 0) for memory_id in living]
    return len(transport.mget(alias, vault.vault_id, names, ["seq"])) < len(names)
