"""Route × scope × suffix, against a table written down apart from the code's own."""

from __future__ import annotations

import pytest

from shared.api.routes import BY_TOOL, ROUTES, Route
from shared.domain.keys import SCOPES, hash_key
from shared.ports.directory import KeyRecord
from tests.api.client import Client

READ, WRITE, REFLECT, DELETE = "memories:read", "memories:write", "memories:reflect", "memories:delete"
ADMIN, CURATE = "keys:admin", "memories:curate"

NEEDED = {
    "POST /v1/keys": {ADMIN},
    "GET /v1/keys": {ADMIN},
    "DELETE /v1/keys/{key_id}": {ADMIN},
    "POST /v1/memory/ingest": {WRITE},
    "POST /v1/memory/upload": {WRITE},
    "POST /v1/memory/search": {READ},
    "POST /v1/memory/prepare": {READ},
    "POST /v1/memory/date-search": {READ},
    "POST /v1/memory/inspect": {READ},
    "POST /v1/memory/consolidate/checkout": {REFLECT},
    "POST /v1/memory/consolidate/commit": {REFLECT},
    "POST /v1/memory/consolidate/release": {REFLECT},
    "POST /v1/memory/consolidate/renew": {REFLECT},
    "POST /v1/memory/consolidate/reopen": {REFLECT, DELETE},
    "POST /v1/memory/import": {WRITE, DELETE},
    "POST /v1/memory/delete-ids": {DELETE},
    "DELETE /v1/memory": {DELETE},
    "GET /v1/memory/export": {READ},
    "GET /v1/memory/stats": {READ},
    "POST /v1/memory/warmup": {READ},
    "GET /v1/account/usage": {READ},
}
OPEN = {
    "GET /",
    "GET /health",
    "GET /v1/health",
    "GET /openapi.json",
    "GET /.well-known/oauth-protected-resource",
    "GET /.well-known/oauth-protected-resource/mcp",
}
KEYED = [route for route in ROUTES if route.scopes is not None and route.scopes is not BY_TOOL]
"""Routes with scopes of their own. Those of tools: ``test_mcp_scopes.py``."""
AFTER_SUFFIX = {"": set(SCOPES), ":read": {READ}, ":write": {WRITE}, ":off": set()}
KEYS = [set(), *({scope} for scope in sorted(SCOPES)), {REFLECT, DELETE}, {WRITE, DELETE}, set(SCOPES)]


def label(route: Route) -> str:
    return f"{route.method} {route.path}"


def test_every_route_stands_in_the_expected_table() -> None:
    assert {label(route) for route in KEYED} == set(NEEDED)
    assert [label(route) for route in ROUTES if route.scopes is BY_TOOL] == ["POST /mcp"]
    assert {label(route) for route in ROUTES if route.scopes is None} == OPEN


def test_no_route_forgets_its_scopes() -> None:
    assert all(route.scopes and route.scopes <= SCOPES for route in KEYED)


@pytest.mark.parametrize("route", KEYED, ids=label)
def test_key_and_suffix_decide(route: Route, client: Client) -> None:
    needed = NEEDED[label(route)]
    # An unusable body, so that nothing is changed: being refused for it shows that the key was let through.
    unusable = b"[1]" if route.content != "jsonl" else b"[1]\n"
    path = route.path.replace("{key_id}", "none")
    for number, scopes in enumerate(KEYS):
        name = f"mk_scoped-{number}"
        record = KeyRecord(f"key-{number}", hash_key(name), "vault", name, frozenset(scopes), 0)
        client.services.directory.add(record)
        for suffix, left in AFTER_SUFFIX.items():
            answer = client.using(name + suffix).call(route.method, path, unusable)
            missing = needed - (scopes & left)
            if missing:
                assert answer.status == 403, (scopes, suffix)
                assert answer.code == "insufficient_scope"
                assert all(scope in answer.json["error"] for scope in missing)
            else:
                assert answer.status == 400, (scopes, suffix, answer.body)


@pytest.mark.parametrize("route", KEYED, ids=label)
def test_no_key_no_answer(route: Route, client: Client) -> None:
    path = route.path.replace("{key_id}", "none")
    for key in (None, "sk-provider", "mk_", "mk_bad key", "mk_known:admin", "mk_known:"):
        answer = client.using(key).call(route.method, path, b"not json")
        assert (answer.status, answer.code) == (401, "unauthorized"), key
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", [each.removeprefix("GET ") for each in sorted(OPEN)])
def test_open_routes_need_no_key(path: str, client: Client) -> None:
    assert client.using(None).get(path).status == 200


def test_read_only_key_inspects_but_does_not_check_out(client: Client) -> None:
    (memory_id,) = client.ingest("The kettle is blue.")
    reader = client.using(f"{client.key}:read")
    assert reader.post("/v1/memory/inspect", {"memory_id": memory_id}).status == 200
    assert reader.post("/v1/memory/consolidate/checkout", {"tier": 1}).status == 403
