"""What operators do with indexes: create, build beside and take over, list, drop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shared.adapters.opensearch import mapping
from shared.adapters.opensearch.documents import content, vault_of
from shared.adapters.opensearch.transport import FILL, Json, Rejected, Transport, not_created, unavailable
from shared.domain.memory import VaultRef

PAGE = 1_000
MOST_BUILDS = 10_000
READY_S = 8
"""Less than a transport waits for an answer."""
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


def usable(transport: Transport, alias: str, version: int = mapping.VERSION) -> None:
    """Raises `Unavailable` unless the alias stands for one index of this layout."""
    try:
        found = transport.request("GET", f"/{alias}/_mapping")
    except Rejected as error:
        if error.status == 404:
            raise not_created(alias) from error
        raise unavailable(f"refused a request ({error.status} {error.kind})") from error
    if len(found) != 1:
        raise unavailable(f"has {len(found)} indexes behind {alias}; one must be chosen, see `{FILL}`")
    (held,) = found.values()
    layout = held["mappings"].get("_meta", {}).get("strata_layout")
    if layout != version:
        raise unavailable(f"has an index {alias} of layout {layout}, and layout {version} is needed: run `{FILL}`")


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
    transport: Transport,
    model: str,
    dimension: int,
    prefix: str = mapping.PREFIX,
    shards: int = 1,
    replicas: int = 0,
    version: int = mapping.VERSION,
) -> str:
    """Make sure that a model has an index of this layout, an empty one where it has none; returns its own name.

    Several may do so at once. Whether an empty one may serve is for the caller to know.
    """
    alias = mapping.alias(model, dimension, prefix, version)
    made = _made(transport, alias, alias, mapping.body(dimension, shards, replicas, version))
    usable(transport, alias, version)
    return made


def build_beside(
    transport: Transport,
    model: str,
    dimension: int,
    prefix: str = mapping.PREFIX,
    shards: int = 1,
    replicas: int = 0,
    version: int = mapping.VERSION,
) -> str:
    """The index that is to take over, made when none was begun, which nobody reads before `switch`. Returns its name.

    Several may do so at once, and get the same one.
    """
    alias = mapping.alias(model, dimension, prefix, version)
    return _made(transport, alias, mapping.building(alias), mapping.body(dimension, shards, replicas, version))


def _made(transport: Transport, alias: str, under: str, body: Json) -> str:
    # Born with its alias, under the first free name: of two that try at once one is refused, and finds the other's.
    for build in range(1, MOST_BUILDS):
        current = behind(transport, under)
        if current is not None:
            if not _awaited(transport, current):
                raise unavailable(f"does not get {current} ready")
            return current
        name = mapping.concrete(alias, build)
        try:
            transport.request("PUT", f"/{name}", {**body, "aliases": {under: {}}})
        except Rejected as error:
            if error.kind == "resource_already_exists_exception":
                # Refused by what the cluster is about to know; aliases are told from what it knows.
                _awaited(transport, name)
                continue
            raise unavailable(f"could not create {name} ({error.kind})") from error
        return name
    raise unavailable(f"has too many indexes for {alias}")


def _awaited(transport: Transport, name: str) -> bool:
    """Whether an index can be read and written, after a while given to one that somebody is just making."""
    # Not as parameters: the client takes a timeout for its own.
    waiting = f"wait_for_status=yellow&wait_for_events=languid&timeout={READY_S}s"
    try:
        transport.request("GET", f"/_cluster/health/{name}?{waiting}")
    except Rejected:
        return False
    return True


def switch(transport: Transport, alias: str, name: str) -> str | None:
    """Let everything that uses the alias use the index from now on, in one step. Returns the one it replaced."""
    current = behind(transport, alias)
    of_all = {"index": f"{alias}-*", "must_exist": False}
    actions: list[Json] = [
        {"remove": {"alias": alias, **of_all}},
        {"remove": {"alias": mapping.building(alias), **of_all}},
        {"add": {"index": name, "alias": alias}},
    ]
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


def waiting_for_vectors(transport: Transport, prefix: str, version: int, limit: int) -> tuple[VaultRef, ...]:
    """Contents with passages that have no vector yet, in the indexes of all models that are in use."""
    body: Json = {
        "size": 0,
        "query": {"term": {"waiting": True}},
        "aggs": {"contents": {"terms": {"field": "content", "size": limit}}},
    }
    found = transport.search(f"{prefix}-*-v{version}", None, body)
    # Where no index exists there is nothing to add up.
    buckets = found.get("aggregations", {}).get("contents", {}).get("buckets", ())
    return tuple(vault_of(bucket["key"]) for bucket in buckets)


def forget(transport: Transport, prefix: str, vault_id: str, below_epoch: int) -> None:
    """Remove everything of a vault below an epoch, page by page, from the indexes of all models and all layouts."""
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
