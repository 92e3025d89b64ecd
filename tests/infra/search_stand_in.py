"""A search domain in memory that answers what the index asks for, so that each function asks for all it ever does.

It counts and finds documents by plain filters and ranks none: a search finds rows that are too new to be indexed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from shared.adapters.opensearch.mapping import VERSION
from shared.adapters.opensearch.transport import Rejected, Transport

Json = dict[str, Any]
MISSING = 404


class SearchStandIn(Transport):
    """`held` are documents by index and id, `names` the index that each alias stands for: every instance made with the
    same two is a connection to the same domain.
    """

    def __init__(self, held: dict[str, dict[str, Json]], names: dict[str, str]) -> None:
        self._held, self._names = held, names
        self._attempts = 1

    def close(self) -> None:
        return None

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Json:
        first, _, verb = path.strip("/").partition("/")
        given: Any = body
        if first == "_alias":
            if verb not in self._names:
                raise Rejected(MISSING, "aliases_not_found_exception", "")
            return {self._names[verb]: {}}
        if method == "PUT":
            self._held[first] = {}
            self._names |= dict.fromkeys(given["aliases"], first)
            return {"acknowledged": True}
        chosen = [name for name in self._held if fnmatchcase(name, self._names.get(first, first))]
        if verb == "_alias":
            return {
                name: {"aliases": {a: {} for a, behind in self._names.items() if behind == name}} for name in chosen
            }
        if verb == "_mapping":
            return {name: {"mappings": {"_meta": {"strata_layout": VERSION}}} for name in chosen}
        if verb == "_refresh" or first == "_cluster":
            return {}
        if verb == "_bulk":
            return self._written(first, given)
        documents = {name: doc for each in chosen for name, doc in self._held[each].items()}
        if verb == "_search":
            return self._found(documents, given)
        assert verb == "_mget", f"the request {method} {path} is not known here"
        ids = [doc["_id"] for doc in given["docs"]]
        return {"docs": [{"_id": name, "found": name in documents, "_source": documents.get(name)} for name in ids]}

    def _written(self, index: str, body: str) -> Json:
        documents = self._held[self._names.get(index, index)]
        lines = iter(body.splitlines())
        items = []
        for line in lines:
            ((kind, given),) = json.loads(line).items()
            if kind == "index":
                documents[given["_id"]] = json.loads(next(lines))
                items.append({kind: {"status": 201}})
            else:
                gone = documents.pop(given["_id"], None)
                items.append({kind: {"status": MISSING if gone is None else 200}})
        return {"items": items}

    def _found(self, documents: Mapping[str, Json], body: Json) -> Json:
        holding = {name: doc for name, doc in documents.items() if _passes(doc, body.get("query", {}))}
        hits = [
            {
                "_id": name,
                "_index": next(each for each, held in self._held.items() if name in held),
                "fields": {field: [doc.get(field)] for field in body.get("docvalue_fields", ())},
                "sort": [name],
            }
            for name, doc in sorted(holding.items())[: body.get("size", 10)]
        ]
        return {
            "timed_out": False,
            "_shards": {"failed": 0},
            "hits": {"total": {"value": len(holding)}, "hits": hits},
            "aggregations": _Counts(holding, body.get("aggs", {})),
        }


class _Counts(dict[str, Any]):
    """Of every filter how many documents pass it, of every field no value but the contents."""

    def __init__(self, documents: Mapping[str, Json], asked: Mapping[str, Json]) -> None:
        super().__init__()
        for name, each in asked.items():
            if name in ("visible", "named", "held"):
                # No ranking here: nothing is visible, so that a search looks at what is not indexed yet.
                self[name] = {"doc_count": 0, **{inner: {"buckets": []} for inner in each.get("aggs", {})}}
            elif "filters" in each:
                self[name] = {"buckets": {key: {"doc_count": 0} for key in each["filters"]["filters"]}}
            elif "filter" in each:
                self[name] = {"doc_count": sum(_passes(doc, each["filter"]) for doc in documents.values())}
            else:
                self[name] = {"buckets": [{"key": key} for key in {doc["content"] for doc in documents.values()}]}


def _passes(doc: Json, query: Mapping[str, Any]) -> bool:
    for kind, given in query.items():
        if kind == "bool":
            if not all(_passes(doc, each) for each in given.get("filter", ())):
                return False
            if given.get("minimum_should_match") and not any(_passes(doc, each) for each in given["should"]):
                return False
        elif kind in ("term", "terms"):
            ((field, wanted),) = given.items()
            held = doc.get(field)
            every = held if isinstance(held, list) else [held]
            if not any(value in (wanted if kind == "terms" else [wanted]) for value in every):
                return False
        elif kind == "range":
            ((field, bounds),) = given.items()
            if not doc[field] < bounds["lt"]:
                return False
        else:
            assert re.fullmatch(r"script_score|match_all", kind), f"a query of the kind {kind} is not known here"
    return True
