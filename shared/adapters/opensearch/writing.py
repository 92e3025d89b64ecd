"""Bringing rows up to date in the index: the same steps for a row that came, went, or got its vector.

Every step reads the vault's change counter, then the rows, and writes with the counter as the version: of two writers
the one that saw less loses, whenever it arrives. A writer whose counter moved meanwhile looks again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shared.adapters.opensearch.chains import AROUND, Chain, chains
from shared.adapters.opensearch.documents import Document, Key, Numbers, content, document, document_id
from shared.adapters.opensearch.layouts import OtherLayouts
from shared.adapters.opensearch.transport import Json, RowsRefused, Transport, unavailable
from shared.domain.memory import VaultRef
from shared.ports.search import Repaired, RowSource

LOOKS = 10
"""Times at most that a writer looks, while others change what it writes."""
DOCUMENTS_AT_ONCE = 400
PROBED = 4
"""Passages of a removed row that are looked for first; four times as many where all of them are there."""
FOUND_AT_ONCE = 5_000
CONFLICT, ABSENT = 409, 404


@dataclass(slots=True)
class Pending:
    """What one call wants: rows by id, and vectors that it brings."""

    ids: dict[str, None]
    vectors: Mapping[Key, Numbers] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)


class Writer:
    """Into one index, by its alias. What is gone is also removed from the indexes of other layouts."""

    def __init__(self, transport: Transport, rows: RowSource, index: str, refresh: bool, others: OtherLayouts) -> None:
        self._transport, self._rows, self._index, self._refresh = transport, rows, index, refresh
        self._others = others
        self.unseen = False
        """Whether something was written that no search may find yet."""

    def update(self, vault: VaultRef, ids: Iterable[str], vectors: Mapping[Key, Numbers] | None = None) -> Repaired:
        """Tells which rows it wrote. Raises `RowsRefused` after everything else was written.

        Ends when nothing changed while it wrote, or when a further look finds everything as it should be: who changes
        something after that finds these documents and brings them up to date.
        """
        pending = Pending(dict.fromkeys(ids), dict(vectors or {}))
        for _ in range(LOOKS):
            counter = self._rows.change_counter(vault)
            moved = self._look(vault, pending, counter)
            if not moved or self._rows.change_counter(vault) == counter:
                return Repaired(frozenset(pending.missing), frozenset(pending.stale))
        raise unavailable("cannot keep up with the changes around a row")

    def make_visible(self) -> None:
        if self.unseen:
            self.unseen = False
            self._transport.refresh(self._index)

    def _look(self, vault: VaultRef, pending: Pending, counter: int) -> bool:
        """One round; whether it wrote something, or would have, had there not been a newer version."""
        live = self._rows.get(vault, list(pending.ids))
        gone = [memory_id for memory_id in pending.ids if memory_id not in live]
        touched: set[str] = set()
        removals: list[str] = []
        if gone:
            self._others.erase(vault, gone)
        while gone:
            held, around = self._traces(vault, gone)
            removals += [name for memory_id in gone for name in held[memory_id]]
            touched |= around - live.keys()
            more = self._rows.get(vault, sorted(around - live.keys() - pending.ids.keys()))
            gone = sorted(around - more.keys() - live.keys() - pending.ids.keys())
            pending.ids |= dict.fromkeys(gone)
            live |= more
        stretches = chains(self._rows, vault, live.values())
        targets = _targets(stretches, live.keys() - touched, live.keys() & touched, pending.vectors)
        held_vectors, digests = self._held(vault, stretches, targets)
        vectors = {**held_vectors, **_alive(stretches, pending.vectors)}
        documents = [
            document(vault, chain, at, vectors)
            for chain, places in zip(stretches, targets, strict=True)
            for at in places
        ]
        new = [each for each in documents if digests.get(each.id) != each.digest]
        for each in new:
            (pending.stale if each.id in digests else pending.missing).add(each.memory_id)
        return self._write(vault, new, removals, counter, pending)

    def _traces(self, vault: VaultRef, gone: Sequence[str]) -> tuple[dict[str, list[str]], set[str]]:
        """Documents of rows that are gone, by row, and the rows whose documents still speak of them."""
        held: dict[str, list[str]] = {memory_id: [document_id(vault, memory_id, 0)] for memory_id in gone}
        around: set[str] = set()
        asking, first, step = list(gone), 0, PROBED
        never_written = False
        while asking:
            names = {document_id(vault, one, n): one for one in asking for n in range(first, first + step)}
            met: dict[str, int] = {}
            for doc in self._mget(vault, list(names), ["context"]):
                memory_id = names[doc["_id"]]
                held[memory_id].append(doc["_id"])
                around.update(doc["_source"]["context"])
                met[memory_id] = met.get(memory_id, 0) + 1
            never_written |= first == 0 and len(met) < len(asking)
            asking = [memory_id for memory_id in asking if met.get(memory_id) == step]
            first, step = first + step, 4 * step
        if never_written:
            # Without a document of its own only a search can tell who still speaks of the row.
            self._transport.refresh(self._index)
            self.unseen = False
        self.make_visible()
        for name, memory_id in self._mentions(vault, gone):
            if memory_id in held:
                held[memory_id].append(name)
            else:
                around.add(memory_id)
        return {memory_id: list(dict.fromkeys(names)) for memory_id, names in held.items()}, around - set(gone)

    def _mentions(self, vault: VaultRef, gone: Sequence[str]) -> Iterable[tuple[str, str]]:
        """(document, its row) of every document that belongs to one of these rows or has it in its context."""
        of_them = [{"terms": {"memory": list(gone)}}, {"terms": {"context": list(gone)}}]
        body: Json = {
            "size": FOUND_AT_ONCE,
            "_source": False,
            "docvalue_fields": ["memory"],
            "query": {
                "bool": {
                    "filter": [{"term": {"content": content(vault)}}],
                    "should": of_them,
                    "minimum_should_match": 1,
                }
            },
            "sort": ["memory", "number"],
        }
        while True:
            hits = self._transport.search(self._index, vault.vault_id, body)["hits"]["hits"]
            for hit in hits:
                yield hit["_id"], hit["fields"]["memory"][0]
            if len(hits) < FOUND_AT_ONCE:
                return
            body["search_after"] = hits[-1]["sort"]

    def _held(
        self, vault: VaultRef, stretches: Sequence[Chain], targets: Sequence[Collection[int]]
    ) -> tuple[dict[Key, Numbers], dict[str, str]]:
        """Vectors that the passages to write and their neighbours have already, and the digests of those documents."""
        keys: dict[str, Key] = {}
        for chain, places in zip(stretches, targets, strict=True):
            for at in sorted({side for place in places for side in (place - 1, place, place + 1)}):
                if 0 <= at < len(chain):
                    keys[document_id(vault, *chain[at].key)] = chain[at].key
        vectors: dict[Key, Numbers] = {}
        digests: dict[str, str] = {}
        for doc in self._mget(vault, list(keys), ["vector", "waiting", "digest"]):
            digests[doc["_id"]] = doc["_source"]["digest"]
            if not doc["_source"]["waiting"]:
                vectors[keys[doc["_id"]]] = doc["_source"].get("vector", [])
        return vectors, digests

    def _mget(self, vault: VaultRef, names: Sequence[str], source: Sequence[str]) -> Iterable[Json]:
        for first in range(0, len(names), DOCUMENTS_AT_ONCE):
            yield from self._transport.mget(
                self._index, vault.vault_id, names[first : first + DOCUMENTS_AT_ONCE], source
            )

    def _write(
        self, vault: VaultRef, documents: Sequence[Document], removals: Sequence[str], counter: int, pending: Pending
    ) -> bool:
        version = {"routing": vault.vault_id, "version": counter, "version_type": "external_gte"}
        lines: list[tuple[str, Json, str | None]] = [
            (each.memory_id, {"index": {"_id": each.id, **version}}, each.line(counter)) for each in documents
        ]
        lines += [(name.rsplit("#", 2)[1], {"delete": {"_id": name, **version}}, None) for name in removals]
        refused: dict[str, str] = {}
        moved = False
        for first in range(0, len(lines), DOCUMENTS_AT_ONCE):
            part = lines[first : first + DOCUMENTS_AT_ONCE]
            self.unseen = not self._refresh
            results = self._transport.bulk(self._index, [(action, source) for _, action, source in part], self._refresh)
            for (memory_id, action, _), result in zip(part, results, strict=True):
                status = result["status"]
                absent = status == ABSENT and "delete" in action
                moved |= not absent
                if status >= 400 and not absent and status != CONFLICT:
                    refused[memory_id] = str(result.get("error", {}).get("type", status))
        if refused:
            kinds = ", ".join(sorted(set(refused.values())))
            raise RowsRefused(f"the search store refused rows ({kinds})", list(refused))
        return moved


def _targets(
    stretches: Sequence[Chain], changed: Collection[str], touched: Collection[str], vectors: Mapping[Key, Numbers]
) -> list[list[int]]:
    """Places of the passages to write in each stretch.

    Whoever has a changed row among the passages `AROUND` it; a new vector reaches one passage to either side.
    """
    if vectors:
        changed = ()
    found = []
    for chain in stretches:
        places: set[int] = set()
        for at, piece in enumerate(chain):
            reach = AROUND if piece.memory.id in changed else 0 if piece.memory.id in touched else -1
            if piece.key in vectors:
                reach = max(reach, 1)
            places.update(range(at - reach, at + reach + 1))
        found.append([at for at in sorted(places) if 0 <= at < len(chain)])
    return found


def _alive(stretches: Sequence[Chain], vectors: Mapping[Key, Numbers]) -> dict[Key, Numbers]:
    here = {piece.key for chain in stretches for piece in chain}
    return {key: vector for key, vector in vectors.items() if key in here}
