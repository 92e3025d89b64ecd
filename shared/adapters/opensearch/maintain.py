"""What operators do with indexes: create, build beside and take over, list, drop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shared.adapters.opensearch import mapping
from shared.adapters.opensearch.documents import content, vault_of
from shared.adapters.opensearch.transport import CREATE, FILL, Json, Rejected, Transport, not_created, unavailable
from shared.domain.errors import Unavailable
from shared.domain.memory import VaultRef

PAGE = 1_000
NEVER_AGAIN = 2**62
"""A version above every change counter: what is removed with it stays removed against every late write."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One row as the index has it: the numbers of its passages, how many of them wait for a vector.

    `version` is the vault's change counter that the oldest of its passages was written under.
    """

    memory_id: str
    numbers: tuple[int, ...]
    waiting: int
    version: int


def usable(transport: Transport, alias: str) -> None:
    """Raises `Unavailable` unless the alias stands for one index of this layout."""
    try:
        found = transport.request("GET", f"/{alias}/_mapping")
    except Rejected as error:
        if error.status == 404:
            raise not_created(alias) from error
        raise unavailable(f"refused a request ({error.status} {error.kind})") from error
    if len(found) != 1:
        raise unavailable(f"has {len(found)} indexes behind {alias}; one must be chosen, see `{CREATE}`")
    (held,) = found.values()
    layout = held["mappings"].get("_meta", {}).get("strata_layout")
    if layout != mapping.VERSION:
        raise unavailable(
            f"has an index {alias} of layout {layout}, and layout {mapping.VERSION} is needed: run `{CREATE}` for a new"
            f" installation, `{FILL}` for one with rows"
        )


def behind(transport: Transport, alias: str) -> str | None:
    """The index that an alias stands for."""
    try:
        found = transport.request("GET", f"/_alias/{alias}")
    except Rejected as error:
        if error.status == 404:
            return None
        raise unavailable(f"refused a request ({error.status} {error.kind})") from error
    return next(iter(found), None)


def create(
    transport: Transport, model: str, dimension: int, prefix: str = mapping.PREFIX, shards: int = 1, replicas: int = 0
) -> str:
    """Make sure that a model has a usable index; returns its own name. Changes nothing when it has one.

    Where the one in use has another layout, a new and empty one takes over; it is to be filled from the table.
    """
    alias = mapping.alias(model, dimension, prefix)
    current = behind(transport, alias)
    if current is not None:
        try:
            usable(transport, alias)
        except Unavailable:
            current = None
    if current is not None:
        return current
    made = build_beside(transport, model, dimension, prefix, shards, replicas)
    switch(transport, alias, made)
    return made


def build_beside(
    transport: Transport, model: str, dimension: int, prefix: str = mapping.PREFIX, shards: int = 1, replicas: int = 0
) -> str:
    """A new, empty index for a model, which nobody reads before `switch`. Returns its name."""
    alias = mapping.alias(model, dimension, prefix)
    for build in range(1, 10_000):
        name = mapping.concrete(alias, build)
        try:
            transport.request("PUT", f"/{name}", mapping.body(dimension, shards, replicas))
        except Rejected as error:
            if error.kind == "resource_already_exists_exception":
                continue
            raise unavailable(f"could not create {name} ({error.kind})") from error
        return name
    raise unavailable(f"has too many indexes for {alias}")


def switch(transport: Transport, alias: str, name: str) -> str | None:
    """Let everything that uses the alias use the index from now on, in one step. Returns the one it replaced."""
    current = behind(transport, alias)
    actions: list[Json] = [{"add": {"index": name, "alias": alias}}]
    if current is not None and current != name:
        actions.insert(0, {"remove": {"index": current, "alias": alias}})
    try:
        transport.request("POST", "/_aliases", {"actions": actions})
    except Rejected as error:
        raise unavailable(f"could not switch {alias} to {name} ({error.kind})") from error
    return current if current != name else None


def drop(transport: Transport, name: str) -> None:
    """Remove an index by its own name. It is no error when it is gone."""
    try:
        transport.request("DELETE", f"/{name}")
    except Rejected as error:
        if error.status != 404:
            raise unavailable(f"could not drop {name} ({error.kind})") from error


def listed(transport: Transport, index: str, vault: VaultRef) -> Iterator[Listed]:
    """Every row that the index has of a vault, by id, read by pages."""
    transport.refresh(index)
    body: Json = {
        "size": PAGE,
        "_source": False,
        "docvalue_fields": ["memory", "number", "waiting", "seq"],
        "query": {"bool": {"filter": [{"term": {"content": content(vault)}}]}},
        "sort": ["memory", "number"],
    }
    row: Listed | None = None
    while True:
        hits = transport.search(index, vault.vault_id, body)["hits"]["hits"]
        for hit in hits:
            values = {name: value[0] for name, value in hit["fields"].items()}
            passage = Listed(values["memory"], (int(values["number"]),), int(values["waiting"]), int(values["seq"]))
            if row is not None and row.memory_id == passage.memory_id:
                row = Listed(
                    row.memory_id,
                    row.numbers + passage.numbers,
                    row.waiting + passage.waiting,
                    min(row.version, passage.version),
                )
                continue
            if row is not None:
                yield row
            row = passage
        if len(hits) < PAGE:
            break
        body["search_after"] = hits[-1]["sort"]
    if row is not None:
        yield row


def contents(transport: Transport, index: str) -> Iterator[VaultRef]:
    """Every vault content that the index holds something of."""
    composite: Json = {"size": PAGE, "sources": [{"content": {"terms": {"field": "content"}}}]}
    transport.refresh(index)
    while True:
        found = transport.search(index, None, {"size": 0, "aggs": {"contents": {"composite": composite}}})
        contents_found = found["aggregations"]["contents"]
        for bucket in contents_found["buckets"]:
            yield vault_of(bucket["key"]["content"])
        if len(contents_found["buckets"]) < PAGE:
            return
        composite["after"] = contents_found["after_key"]


def waiting_for_vectors(transport: Transport, prefix: str, limit: int) -> tuple[VaultRef, ...]:
    """Contents with passages that have no vector yet, in the indexes of all models."""
    body: Json = {
        "size": 0,
        "query": {"term": {"waiting": True}},
        "aggs": {"contents": {"terms": {"field": "content", "size": limit}}},
    }
    found = transport.search(f"{prefix}-*", None, body)
    # Where no index exists there is nothing to add up.
    buckets = found.get("aggregations", {}).get("contents", {}).get("buckets", ())
    return tuple(vault_of(bucket["key"]) for bucket in buckets)


def forget(transport: Transport, prefix: str, vault_id: str, below_epoch: int) -> None:
    """Remove everything of a vault below an epoch, page by page, from the indexes of all models."""
    everywhere = f"{prefix}-*"
    older = {"range": {"epoch": {"lt": below_epoch}}}
    body: Json = {
        "size": PAGE,
        "_source": False,
        "query": {"bool": {"filter": [{"term": {"vault": vault_id}}, older]}},
    }
    while True:
        transport.refresh(everywhere)
        hits = transport.search(everywhere, vault_id, body)["hits"]["hits"]
        by_index: dict[str, list[str]] = {}
        for hit in hits:
            by_index.setdefault(hit["_index"], []).append(hit["_id"])
        version = {"routing": vault_id, "version": NEVER_AGAIN, "version_type": "external_gte"}
        for index, names in by_index.items():
            transport.bulk(index, [({"delete": {"_id": name, **version}}, None) for name in names], False, alias=False)
        if not hits:
            return
