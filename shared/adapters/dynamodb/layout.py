"""What lies where in the table.

One partition holds one content of a vault, ``V#<vault>#<epoch>``, so that its local secondary indexes can be read
consistently. Sort keys::

    D                 counters: debt, totals, `seq` (the change counter), `sealed`
    M#<id>            a memory
    B#<id>            a batch's header            B#<id>#S0  its sources: ids in order, 16 bytes each
    L#<tier>          the ledger: which batches of the tier are open
    A#<attempt>       a large write between its commit point and its last row
    T#<attempt>#<n>   texts on their way: rows that the commit point made certain and that are not published yet
    I#<hash>          the answer under an Idempotency-Key

Attributes of a memory have short names, since DynamoDB bills them: t tier, x text, r role, d date, k tokens, w written,
s session, i importance, cf and ct what it covers, o and e the batch that wrote it and its place there, by and at the
batch that consolidated it and its place there. `pool`, `when` and `turn` are the keys of the three indexes.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence

from shared.adapters.dynamodb.values import Item, Key, Wire, to_item
from shared.domain.batch import EXPIRED_KEPT_MS, Batch, Created, State
from shared.domain.memory import HIGH_LEVEL, Covers, Memory, VaultRef
from shared.domain.times import MIN_MS

POOL, WHEN, TURN = "pool", "when", "turn"
"""The local secondary indexes, each named as its sort key: unconsolidated rows, rows by date, raw rows by session."""
TTL = "ttl"
UNMARKED = "attribute_exists(#pk) AND attribute_not_exists(#by)"
"""The condition that a row is there and no source of any batch."""
ID_BYTES = 16
NOBODY = bytes(ID_BYTES)
"""A place in a source list whose row was never there."""
PART_BYTES = 380_000
STAGED_MS = 86_400_000

SCHEMA: Wire = {
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", POOL, WHEN, TURN)],
    "LocalSecondaryIndexes": [
        {
            "IndexName": name,
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": name, "KeyType": "RANGE"}],
            "Projection": projection,
        }
        for name, projection in (
            (POOL, {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["k", "i"]}),
            (WHEN, {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["i", "cf"]}),
            (TURN, {"ProjectionType": "KEYS_ONLY"}),
        )
    ],
    "BillingMode": "PAY_PER_REQUEST",
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
}
"""The table, as ``CreateTable`` takes it besides a name."""


def partition(vault: VaultRef) -> str:
    return f"V#{vault.vault_id}#{vault.epoch}"


def counters_key(vault: VaultRef) -> Key:
    return partition(vault), "D"


def memory_key(vault: VaultRef, memory_id: str) -> Key:
    return partition(vault), f"M#{memory_id}"


def header_key(vault: VaultRef, batch_id: str) -> Key:
    return partition(vault), f"B#{batch_id}"


def list_key(vault: VaultRef, batch_id: str) -> Key:
    return partition(vault), f"B#{batch_id}#S0"


def ledger_key(vault: VaultRef, tier: int) -> Key:
    return partition(vault), f"L#{tier}"


def job_key(vault: VaultRef, attempt: str) -> Key:
    return partition(vault), f"A#{attempt}"


def part_key(vault: VaultRef, attempt: str, number: int) -> Key:
    return partition(vault), f"T#{attempt}#{number:03d}"


def once_key(vault: VaultRef, key_hash: str) -> Key:
    return partition(vault), f"I#{key_hash}"


def id_of(sort_key: str) -> str:
    """The id in a sort key or an index key: what follows its last ``#``."""
    return sort_key.rpartition("#")[2]


def moment(ms: int) -> str:
    """An instant so that text sorts as time does."""
    return f"{ms - MIN_MS:015d}"


def when_key(tier: int, date_ms: int, memory_id: str = "") -> str:
    """A key of `WHEN`, and with a row's place in its pool one of `POOL`; without an id it lies before all of them."""
    return f"{tier}#{moment(date_ms)}#{memory_id}"


def session_mark(session_id: str) -> str:
    """What a session's keys in `TURN` begin with. A hash: a session's name may be longer than an index key."""
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def turn_key(session_id: str, date_ms: int, memory_id: str = "") -> str:
    return f"{session_mark(session_id)}#{moment(date_ms)}#{memory_id}"


def pool_key(tier: int, pool_ms: int, memory_id: str) -> str | None:
    """Where an unconsolidated row waits; None for a tier that is never consolidated."""
    return when_key(tier, pool_ms, memory_id) if tier < HIGH_LEVEL else None


def memory_item(vault: VaultRef, memory: Memory) -> Wire:
    covers = memory.covers
    free = memory.consolidated_by is None
    return to_item({
        **dict(zip(("pk", "sk"), memory_key(vault, memory.id), strict=True)),
        "t": memory.tier, "x": memory.text, "r": memory.role, "d": memory.date_ms, "k": memory.tokens,
        "w": memory.created_ms, "s": memory.session_id, "i": memory.importance,
        "cf": None if covers is None else covers.from_ms, "ct": None if covers is None else covers.to_ms,
        "o": memory.origin, "e": memory.entry, "by": memory.consolidated_by, "at": memory.position,
        POOL: pool_key(memory.tier, memory.pool_ms, memory.id) if free else None,
        WHEN: when_key(memory.tier, memory.date_ms, memory.id),
        TURN: None if memory.session_id is None else turn_key(memory.session_id, memory.date_ms, memory.id),
    })  # fmt: skip


def to_memory(item: Item) -> Memory:
    covers = Covers(item["cf"], item["ct"]) if "cf" in item else None
    return Memory(
        id_of(item["sk"]), item["t"], item["x"], item["r"], item["d"], item["k"], item["w"], item.get("s"),
        item.get("i"), covers, item.get("o"), item.get("e"), item.get("by"), item.get("at"),
    )  # fmt: skip


def header_values(batch: Batch) -> dict[str, object]:
    """A header's attributes besides its key. One that was never committed is kept for 7 days after its lease."""
    # A lease can be renewed once, by its own length: so no renewal outlives this.
    kept = seconds(batch.leased_ms + 2 * batch.lease_ms + EXPIRED_KEPT_MS)
    return {
        "tier": batch.tier, "state": batch.state.value, "count": batch.count, "tokens": batch.tokens,
        "cf": batch.covers.from_ms, "ct": batch.covers.to_ms, "leased": batch.leased_ms, "expires": batch.expires_ms,
        "lease": batch.lease_ms, "renewed": batch.renewed_ms, "committed": batch.committed_ms,
        "created": created_json(batch.created), "consolidated": batch.sources_consolidated,
        "deleted": batch.sources_deleted, TTL: kept if batch.state is State.LEASED else None,
    }  # fmt: skip


def header_item(vault: VaultRef, batch: Batch) -> Wire:
    return keyed(header_key(vault, batch.id), header_values(batch))


def keyed(key: Key, values: dict[str, object]) -> Wire:
    return to_item({"pk": key[0], "sk": key[1], **values})


def to_batch(item: Item) -> Batch:
    created = tuple(Created(each[0], each[1]) for each in json.loads(item["created"]))
    return Batch(
        id=id_of(item["sk"]), tier=item["tier"], state=State(item["state"]), count=item["count"],
        tokens=item["tokens"], covers=Covers(item["cf"], item["ct"]), leased_ms=item["leased"],
        expires_ms=item["expires"], lease_ms=item["lease"], renewed_ms=item.get("renewed"),
        committed_ms=item.get("committed"), created=created, sources_consolidated=item["consolidated"],
        sources_deleted=item["deleted"],
    )  # fmt: skip


def created_json(created: Iterable[Created]) -> str:
    return json.dumps([[item.id, item.importance] for item in created], separators=(",", ":"))


def pack_ids(ids: Iterable[str | None]) -> bytes:
    return b"".join(NOBODY if name is None else bytes.fromhex(name.replace("-", "")) for name in ids)


def unpack_ids(packed: bytes) -> list[str]:
    """The ids in order; a place that nobody has reads as the nil UUID, which names no row."""
    texts = (packed[start : start + ID_BYTES].hex() for start in range(0, len(packed), ID_BYTES))
    return [f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}" for text in texts]


def pack_rows(rows: Sequence[Memory]) -> list[bytes]:
    """Rows that are neither consolidated nor published, in parts that each fit an item."""
    parts: list[list[str]] = [[]]
    size = 0
    for row in rows:
        covers = row.covers
        text = json.dumps(
            [
                row.id, row.tier, row.text, row.role, row.date_ms, row.tokens, row.created_ms, row.session_id,
                row.importance, None if covers is None else [covers.from_ms, covers.to_ms], row.origin, row.entry,
            ],
            ensure_ascii=False,
            separators=(",", ":"),
        )  # fmt: skip
        length = len(text.encode("utf-8"))
        if parts[-1] and size + length > PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(text)
        size += length
    return [zlib.compress("\n".join(part).encode("utf-8"), 1) for part in parts if part]


def unpack_rows(parts: Iterable[bytes]) -> list[Memory]:
    return [_staged(line) for part in parts for line in zlib.decompress(part).decode("utf-8").split("\n")]


def _staged(line: str) -> Memory:
    memory_id, tier, text, role, date, tokens, written, session, importance, covered, origin, entry = json.loads(line)
    covers = None if covered is None else Covers(*covered)
    return Memory(memory_id, tier, text, role, date, tokens, written, session, importance, covers, origin, entry)


def seconds(ms: int) -> int:
    """A TTL attribute's value; never before the moment it stands for."""
    return -(-ms // 1000)
