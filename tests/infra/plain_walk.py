"""Every function that does not search answers on the AWS back end, while some modules cannot be imported.

``python -m tests.infra.plain_walk MODULE…`` forbids the modules and prints, as JSON, function → status of its answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ON_AWS = {
    "STRATA_BACKEND": "aws",
    "STRATA_TABLE": "memories",
    "STRATA_SEARCH_URL": "https://127.0.0.1:1",
    "STRATA_AUTO_PROVISION_KEYS": "1",
}


class Forbidden(MetaPathFinder):
    """Refuses modules and what lies in them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if any(fullname == name or fullname.startswith(name + ".") for name in self._names):
            raise ImportError(f"{fullname} is forbidden")
        return None


def walk() -> dict[str, int]:
    from infra.local.gateway import Gateway
    from shared import bootstrap
    from shared.adapters.dynamodb.layout import SCHEMA
    from shared.bootstrap.aws import Aws
    from shared.settings import load
    from tests.api.client import Client
    from tests.dynamodb.table import MemoryTable

    table = MemoryTable()
    table.create_table(TableName="memories", **SCHEMA)
    backend = Aws(load(ON_AWS), connect=lambda service: table)
    bootstrap.activate(backend)
    client = Client(Gateway(backend.services), backend.services)
    consolidation = "/v1/memory/consolidate"
    found = {
        "home": client.get("/").status,
        "health": client.get("/health").status,
        "openapi": client.get("/openapi.json").status,
        "protected_resource": client.get("/.well-known/oauth-protected-resource").status,
    }
    made = client.post("/v1/keys", {"name": "second"})
    found["keys_create"] = made.status
    found["keys_list"] = client.get("/v1/keys").status
    found["keys_delete"] = client.delete(f"/v1/keys/{made.json['key_id']}").status
    told = client.post("/v1/memory/ingest", {"messages": [{"role": "user", "content": text} for text in "abc"]})
    found["ingest"] = told.status
    found["upload"] = client.post("/v1/memory/upload", b'{"content": "d"}\n', content_type="text/plain").status
    leased = client.post(f"{consolidation}/checkout", {"tier": 1})
    found["checkout"] = leased.status
    batch = {"batch_id": leased.json["batch_id"]}
    found["renew"] = client.post(f"{consolidation}/renew", batch).status
    found["release"] = client.post(f"{consolidation}/release", batch).status
    batch = {"batch_id": client.post(f"{consolidation}/checkout", {"tier": 1}).json["batch_id"]}
    committed = client.post(f"{consolidation}/commit", {**batch, "entries": [{"text": "e", "importance": 5}]})
    found["commit"] = committed.status
    found["inspect"] = client.post("/v1/memory/inspect", {"memory_id": committed.json["created"][0]["id"]}).status
    found["reopen"] = client.post(f"{consolidation}/reopen", batch).status
    found["delete_ids"] = client.post("/v1/memory/delete-ids", {"ids": told.json["ids"][:1]}).status
    exported = client.get("/v1/memory/export")
    found["export"] = exported.status
    elsewhere = client.using("mk_another-one")
    taken = elsewhere.post("/v1/memory/import?finish=true", exported.body, content_type="text/plain")
    found["import_vault"] = taken.status
    found["usage"] = client.get("/v1/account/usage").status
    return found


if __name__ == "__main__":
    sys.meta_path.insert(0, Forbidden(sys.argv[1:]))
    print(json.dumps(walk()))
