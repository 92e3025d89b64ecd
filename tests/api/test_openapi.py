"""The OpenAPI document: up to date, whole, and true when it is fuzzed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from functions.openapi import handler as static
from infra.local.gateway import Gateway, handler_of
from shared.api import openapi
from shared.api.models.base import NoBody
from shared.api.routes import ROUTES
from tests.api.client import Client

ROOT = Path(__file__).resolve().parents[2]
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


def test_the_static_file_is_up_to_date() -> None:
    """Otherwise: python -m shared.api.openapi > functions/openapi/openapi.json"""
    assert openapi.as_text() == static.DOCUMENT


def test_it_is_served_as_it_is(client: Client) -> None:
    answer = client.using(None).get("/openapi.json")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json == json.loads((ROOT / "functions" / "openapi" / "openapi.json").read_text("utf-8"))


def test_every_route_is_described_with_the_body_that_its_handler_takes() -> None:
    document = openapi.document()
    for route in ROUTES:
        operation = document["paths"][route.path][route.method.lower()]
        assert str(route.success) in operation["responses"]
        assert (operation["security"] == []) == (route.scopes is None)
        if route.scopes is None or route.content == "jsonl":
            continue
        assert handler_of(route.folder).body is openapi.BODIES.get(route.name, NoBody), route.name


def test_references_lead_somewhere_and_operations_have_distinct_names() -> None:
    document = openapi.document()
    text = json.dumps(document)
    for kind in ("schemas", "responses"):
        for part in text.split(f"#/components/{kind}/")[1:]:
            assert part.split('"')[0] in document["components"][kind]
    names = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(openapi.EXAMPLES))
def test_examples_are_requests_that_are_understood(name: str, client: Client) -> None:
    (route,) = [route for route in ROUTES if route.name == name]
    answer = client.call(route.method, route.path, openapi.EXAMPLES[name])
    assert answer.status in (route.success, 404), answer.body


def wsgi(gateway: Gateway) -> Callable[..., Iterable[bytes]]:
    """The gateway as the kind of application that fuzzers drive without a socket."""

    def application(environ: dict[str, Any], start: Callable[..., object]) -> Iterator[bytes]:
        names = [name for name in environ if name.startswith("HTTP_")]
        headers = [(name[5:].replace("_", "-"), environ[name]) for name in names]
        headers += [(n.replace("_", "-"), environ[n]) for n in ("CONTENT_TYPE", "CONTENT_LENGTH") if environ.get(n)]
        path = environ["RAW_URI"].partition("?")[0] if "RAW_URI" in environ else environ["PATH_INFO"]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        response = gateway.handle(environ["REQUEST_METHOD"], path, environ["QUERY_STRING"], headers, body)
        start(f"{response.status} -", list(response.headers))
        yield response.body

    return application


@pytest.mark.slow
@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.path != "/"], ids=lambda r: f"{r.method} {r.path}"
)
def test_fuzzing_finds_no_lie(route: Any, gateway: Gateway) -> None:
    schema = schemathesis.openapi.from_wsgi("/openapi.json", wsgi(gateway))
    strategy = schema[route.path][route.method].as_strategy()

    @settings(
        max_examples=40,
        deadline=None,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def fuzz(case: Any) -> None:
        response = case.call(headers={"Authorization": "Bearer mk_fuzzed"})
        case.validate_response(response, checks=CHECKS)

    fuzz()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
POSTS = sorted({route.path for route in ROUTES if route.method == "POST"})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_no_body_makes_the_server_fail(data: st.DataObject, client: Client) -> None:
    path = data.draw(st.sampled_from(POSTS))
    names = [name for name in openapi.BODIES if any(r.name == name and r.path == path for r in ROUTES)]
    fields = sorted(openapi.BODIES[names[0]].model_json_schema()["properties"]) if names else ["content"]
    body = data.draw(
        st.binary(max_size=40)
        | JSON.map(lambda value: json.dumps(value).encode())
        | st.dictionaries(st.sampled_from(fields), JSON, max_size=4).map(lambda value: json.dumps(value).encode())
    )
    answer = client.post(path, body)
    assert answer.status < 500
    if path == "/mcp":
        answers = [] if answer.status == 202 else answer.json if isinstance(answer.json, list) else [answer.json]
        assert all(each["jsonrpc"] == "2.0" and {"result", "error"} & set(each) for each in answers)
    else:
        assert answer.status < 300 or {"error", "code"} <= set(answer.json)
