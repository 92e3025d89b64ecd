"""A passage as a document: words and vectors of its own and of its neighbours, never a text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shared.adapters.opensearch.chains import AROUND, Chain, Piece
from shared.domain.memory import Memory, VaultRef
from shared.retrieval.indexed import unit
from shared.retrieval.speakers import speaker_name

Numbers = list[float]
Key = tuple[str, int]
"""(memory id, passage number)."""

DIGITS = 7
"""Of a stored component: what a float32 of unit length holds."""


@dataclass(frozen=True, slots=True)
class Document:
    """`source` is the JSON of everything but `seq`, which it is written with; `digest` is taken of it."""

    id: str
    memory_id: str
    source: str
    digest: str

    def line(self, seq: int) -> str:
        return f'{{"seq":{seq},"digest":"{self.digest}",{self.source[1:]}'


class Facts(NamedTuple):
    """What is read back with a hit. A search reads a thousand of them, and a tuple is made in a third of the time."""

    memory_id: str
    number: int
    tier: int
    date_ms: int
    session: str
    role: str
    lengths: tuple[int, int, int]


def content(vault: VaultRef) -> str:
    return f"{vault.vault_id}#{vault.epoch}"


def vault_of(name: str) -> VaultRef:
    """The vault content of that name, as `content` gives it."""
    vault_id, epoch = name.rsplit("#", 1)
    return VaultRef(vault_id, int(epoch))


def document_id(vault: VaultRef, memory_id: str, number: int) -> str:
    return f"{content(vault)}#{memory_id}#{number}"


def hashed(name: str) -> str:
    """A session or role as the index knows it: any text, of one length."""
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def neighbours(chain: Chain, at: int, reach: int) -> list[Piece]:
    """The passage at `at` with up to `reach` on either side."""
    return chain[max(0, at - reach) : at + reach + 1]


def document(vault: VaultRef, chain: Chain, at: int, vectors: Mapping[Key, Numbers]) -> Document:
    piece = chain[at]
    memory = piece.memory
    covers = memory.covers
    fields = [[word for each in neighbours(chain, at, reach) for word in each.words()] for reach in range(AROUND + 1)]
    session = "" if memory.session_id is None else hashed(memory.session_id)
    facts = Facts(
        memory.id, piece.number, memory.tier, memory.date_ms, session, hashed(memory.role),
        (len(fields[0]), len(fields[1]), len(fields[2])),
    )  # fmt: skip
    source: dict[str, object] = {
        "content": content(vault),
        "vault": vault.vault_id,
        "epoch": vault.epoch,
        "memory": memory.id,
        "number": piece.number,
        "tier": memory.tier,
        "covers_from": memory.date_ms if covers is None else covers.from_ms,
        "covers_to": memory.date_ms if covers is None else covers.to_ms,
        "role": facts.role,
        "context": sorted({each.memory.id for each in neighbours(chain, at, AROUND)} - {memory.id}),
        "own": fields[0],
        "near": fields[1],
        "wide": fields[2],
        "said": sorted({word for each in neighbours(chain, at, 1) for word in each.said}),
        "facts": written(facts),
        "waiting": piece.key not in vectors,
    }
    if session:
        source["session"] = session
    if memory.importance is not None:
        source["importance"] = memory.importance
    source |= _speaker(memory)
    if vectors.get(piece.key):
        source["vector"] = vectors[piece.key]
        around = context_vector(chain, at, vectors)
        if around is not None:
            source["around"] = around
    text = json.dumps(source, separators=(",", ":"))
    digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    return Document(document_id(vault, memory.id, piece.number), memory.id, text, digest)


def _speaker(memory: Memory) -> dict[str, object]:
    name = speaker_name(memory.role, memory.tier)
    return {"speaker": sorted(name), "speaker_size": len(name)} if name else {}


def context_vector(chain: Chain, at: int, vectors: Mapping[Key, Numbers]) -> Numbers | None:
    """The direction of own + previous / 2 + following / 2; None where they cancel out."""
    mixed = np.array(vectors[chain[at].key], np.float64)
    for side in (at - 1, at + 1):
        if 0 <= side < len(chain) and (beside := vectors.get(chain[side].key)):
            mixed = mixed + np.array(beside) / 2
    length = float(np.linalg.norm(mixed))
    return None if length < 1e-3 else np.round(mixed / length, DIGITS).tolist()


def stored_vector(vector: npt.NDArray[np.float32]) -> Numbers:
    """At the precision that every index keeps; empty for a vector without a direction, near to nothing."""
    exact = unit(vector)
    return np.round(exact.astype(np.float64), DIGITS).tolist() if exact.any() else []


def written(facts: Facts) -> str:
    lengths = " ".join(map(str, facts.lengths))
    return (
        f"{facts.memory_id} {facts.number} {facts.tier} {facts.date_ms} {facts.session or '-'} {facts.role} {lengths}"
    )


def read_facts(text: str) -> Facts:
    memory_id, number, tier, date, session, role, own, near, wide = text.split(" ")
    return Facts(
        memory_id, int(number), int(tier), int(date), "" if session == "-" else session, role,
        (int(own), int(near), int(wide)),
    )  # fmt: skip
