"""A search store that holds documents in memory and ranks nothing: it answers as one would, so that requests count.

Searches answer with stored documents in the order they came. Written documents can be read by id and wait for vectors
like those of a real store; nothing is scored, and aggregations count as if every document were meant.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from shared.adapters.opensearch.mapping import COUNTING, VERSION
from shared.adapters.opensearch.query import AROUND, OWN, SAID
from shared.adapters.opensearch.transport import Json, Transport

NEAR = 0.6
"""The cosine that every document answers with: above the noise of every model."""
HELD_BY = 50
"""One passage of so many holds a word, whichever."""


class SearchStandIn(Transport):
    """Opens no connection. `requests` counts by kind, `written` counts documents; `population` is how many passages a
    vault claims to have, None for as many as it holds."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.written = 0
        self.population: int | None = None
        self._docs: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        pass

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Json:
        if path.endswith("/_alias"):
            # No other layout is there.
            self.requests["read"] += 1
            return {}
        assert path.endswith("/_mapping"), f"the stand-in has no answer to {method} {path}"
        return {"index": {"mappings": {"_meta": {"strata_layout": VERSION}}}}

    def search(self, index: str, routing: str | None, body: Json, scores: bool = False) -> Json:
        self.requests["search"] += 1
        if "aggs" in body:
            return self._counted(body)
        if not scores:
            return {"hits": {"hits": self._named(body)}}
        found = list(self._docs.values())[: body["size"]]
        return {
            "hits": {"hits": [{"fields": {"facts": [doc["facts"]]}, "matched_queries": _signals()} for doc in found]}
        }

    def _counted(self, body: Json) -> Json:
        total = len(self._docs) if self.population is None else self.population
        aggs: Json = {}
        for name, asked in body["aggs"].items():
            if name == "visible":
                tiers = Counter(doc["tier"] for doc in self._docs.values())
                tiers[1] += total - len(self._docs)
                aggs[name] = {"doc_count": total, "tiers": {"buckets": _buckets(tiers)}}
            elif name == "words":
                some = max(1, total // HELD_BY)
                aggs[name] = {"buckets": {word: {"doc_count": some} for word in asked["filters"]["filters"]}}
            elif name == "named":
                aggs[name] = {"roles": {"buckets": []}}
            elif name == "held":
                (terms, _) = asked["filter"]["bool"]["filter"]
                held = {doc["memory"] for doc in self._docs.values()} & set(terms["terms"]["memory"])
                aggs[name] = {"rows": {"buckets": _buckets(dict.fromkeys(held, 1))}}
            elif name == "sessions":
                sizes = Counter(doc.get("session") for doc in self._docs.values())
                aggs[name] = {"buckets": _buckets({each: sizes[each] for each in asked["terms"]["include"]})}
            elif name == "waiting":
                aggs[name] = {"doc_count": sum(doc["waiting"] for doc in self._docs.values())}
            else:
                raise AssertionError(f"the stand-in has no answer to the aggregation {name}")
        return {"hits": {"total": {"value": total}}, "aggregations": aggs}

    def _named(self, body: Json) -> list[Json]:
        """Documents that wait for a vector, or that speak of rows that are gone."""
        clause = body["query"]["bool"]
        if "should" in clause:
            of, near = (
                set(each["terms"][name]) for each, name in zip(clause["should"], ("memory", "context"), strict=True)
            )
            found = [doc for doc in self._docs.values() if doc["memory"] in of or near & set(doc["context"])]
        else:
            found = [doc for doc in self._docs.values() if doc["waiting"]]
        return [
            {"_id": doc["_id"], "fields": {"memory": [doc["memory"]], "number": [doc["number"]]}}
            for doc in found[: body["size"]]
        ]

    def mget(self, index: str, routing: str, ids: Sequence[str], source: Sequence[str]) -> list[Json]:
        self.requests["read"] += 1 if ids else 0
        return [{"_id": name, "_source": dict(self._docs[name])} for name in ids if name in self._docs]

    def bulk(
        self, index: str, lines: Sequence[tuple[Json, str | None]], refresh: bool, alias: bool = True
    ) -> list[Json]:
        self.requests["write"] += 1
        results: list[Json] = []
        for action, source in lines:
            ((kind, place),) = action.items()
            known = place["_id"] in self._docs
            if source is None:
                self._docs.pop(place["_id"], None)
            else:
                self._docs[place["_id"]] = {**json.loads(source), "_id": place["_id"]}
            self.written += kind == "index"
            results.append({"status": 200 if known or kind == "index" else 404})
        return results

    def refresh(self, index: str) -> None:
        self.requests["refresh"] += 1


def _signals() -> dict[str, float]:
    return {SAID: 1.0, OWN: 1.0 + NEAR, AROUND: 1.0 + NEAR, "0 0": COUNTING}


def _buckets(sizes: Mapping[Any, int]) -> list[Json]:
    return [{"key": name, "doc_count": size} for name, size in sizes.items()]
