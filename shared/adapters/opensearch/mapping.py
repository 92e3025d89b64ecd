"""What an index of passages looks like, and what it is called.

One index for each embedding model, dimension and version of this layout. Everything reads and writes through an alias
that carries all three, so that a newer index can be built beside the one in use and then take over, and so that two
releases with different layouts each have their own. Every layout has the keywords `content`, `vault` and `memory` and
the number `epoch`: any release finds in any other's index what is to be removed.
"""

from __future__ import annotations

import re
from typing import Any

from shared.retrieval.words import AVERAGE_LENGTHS, K1, B

VERSION = 2
"""Of this layout; moves with every change that an existing index could not hold."""
PREFIX = "strata"
MAX_RESULTS = 60_000
FIELDS = ("own", "near", "wide")
"""The fields of words: a passage's own, with one neighbour on either side, with two."""

COUNTING = 2.0**-20
"""The boost by which a term query answers with the plain number of occurrences, times this."""
_COUNTING_BELOW = 0.0001

_SLUG = re.compile(r"[^a-z0-9]+")


def stem(model: str, dimension: int, prefix: str = PREFIX) -> str:
    """What the names of a model's indexes begin with, whatever their layout."""
    slug = _SLUG.sub("-", model.lower()).strip("-")[:100]
    return f"{prefix}-{slug}-{dimension}"


def alias(model: str, dimension: int, prefix: str = PREFIX, version: int = VERSION) -> str:
    return f"{stem(model, dimension, prefix)}-v{version}"


def building(alias_name: str) -> str:
    """The alias of the index that is being filled and then takes over."""
    return f"{alias_name}-building"


def concrete(alias_name: str, build: int) -> str:
    return f"{alias_name}-{build}"


def body(dimension: int, shards: int = 1, replicas: int = 0, version: int = VERSION) -> dict[str, Any]:
    """Settings and mapping of one index."""
    keyword, number = {"type": "keyword"}, {"type": "long"}
    vector = {
        "type": "knn_vector",
        "dimension": dimension,
        "method": {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"},
    }
    properties: dict[str, Any] = {
        "content": keyword,
        "vault": keyword,
        "epoch": number,
        "memory": keyword,
        "number": number,
        "tier": number,
        "importance": number,
        "covers_from": number,
        "covers_to": number,
        "session": keyword,
        "role": keyword,
        "speaker": keyword,
        "speaker_size": number,
        "context": keyword,
        "said": keyword,
        "waiting": {"type": "boolean"},
        "seq": number,
        "digest": {"type": "keyword", "index": False},
        "facts": {"type": "keyword", "index": False},
        "vector": vector,
        "around": vector,
    }
    for name in FIELDS:
        properties[name] = {"type": "text", "analyzer": "keyword", "index_options": "freqs", "similarity": name}
    return {
        "settings": {
            "number_of_shards": shards,
            "number_of_replicas": replicas,
            "index.knn": True,
            "index.max_result_window": MAX_RESULTS,
            # How long a late write of a removed row is still refused.
            "index.gc_deletes": "1h",
            "similarity": {name: _similarity(average) for name, average in zip(FIELDS, AVERAGE_LENGTHS, strict=True)},
        },
        "mappings": {
            "_meta": {"strata_layout": version, "dimension": dimension},
            "_routing": {"required": True},
            # Only what a later write of a neighbour needs is kept to be read back.
            "_source": {"excludes": ["own", "near", "wide", "said", "around"]},
            "dynamic": "strict",
            "properties": properties,
        },
    }


def _similarity(average: float) -> dict[str, Any]:
    # Without a document frequency: the one at hand is the shard's, all tenants together. It comes as the boost.
    norm = f"{K1} * ({1 - B} + {B} * doc.length / {average})"
    source = (
        f"double f = doc.freq; return query.boost < {_COUNTING_BELOW} ? query.boost * f"
        f" : query.boost * f / (f + {norm});"
    )
    return {"type": "scripted", "script": {"source": source}}
