"""Envelopes, headers and revisions of the Model Context Protocol, by the specification's own rules and examples."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.mcp.protocol import (
    LEGACY,
    MODERN,
    VERSIONS,
    Message,
    RpcError,
    id_of,
    message_of,
    negotiated,
    values_in,
)
from shared.domain.errors import TooLarge

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
META: dict[str, object] = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)


def request(method: str = "tools/list", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def modern(method: str = "tools/list", name: str | None = None) -> dict[str, str]:
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    return headers if name is None else {**headers, "mcp-name": name}


def refused(value: object, headers: dict[str, str], batched: bool = False) -> RpcError:
    with pytest.raises(RpcError) as caught:
        message_of(value, headers, batched)
    return caught.value


def test_the_revisions_are_those_that_the_specification_dates() -> None:
    assert VERSIONS == ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26")
    assert VERSIONS[0] == MODERN
    assert VERSIONS[1:] == LEGACY


def test_a_modern_request_says_twice_what_it_is() -> None:
    message = message_of(request("tools/call", name="search", _meta=META), modern("tools/call", "search"))
    assert (message.id, message.method, message.version, message.modern) == (1, "tools/call", "2026-07-28", True)


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({}, "MCP-Protocol-Version is missing"),
        ({"mcp-protocol-version": "2025-11-25"}, "MCP-Protocol-Version does not say"),
        ({"mcp-protocol-version": "2026-07-28"}, "Mcp-Method is missing"),
        (modern("tools/list", "search"), "Mcp-Method does not say"),
        (modern("TOOLS/CALL", "search"), "Mcp-Method does not say"),
        (modern("tools/call"), "Mcp-Name is missing"),
        (modern("tools/call", "fetch"), "Mcp-Name does not say"),
        (modern("tools/call", "=?base64?!?="), "Mcp-Name is no Base64"),
        (modern("tools/call", "=?base64?/w==?="), "Mcp-Name is no Base64"),
    ],
)
def test_headers_that_disagree_with_the_body_are_a_mismatch(headers: dict[str, str], named: str) -> None:
    error = refused(request("tools/call", name="search", _meta=META), headers)
    assert (error.code, error.status(modern=True)) == (-32020, 400)
    assert named in error.message


def test_a_name_that_is_no_plain_ascii_travels_in_base64() -> None:
    uri = "memory://vault/größe"
    wrapped = f"=?base64?{base64.b64encode(uri.encode()).decode()}?="
    value = request("resources/read", uri=uri, _meta=META)
    assert message_of(value, modern("resources/read", wrapped)).text("uri") == uri
    assert refused(value, modern("resources/read", "memory://vault/gr")).code == -32020


@pytest.mark.parametrize(
    "meta",
    [
        None,
        [],
        {},
        {VERSION_KEY: "2026-07-28"},
        {CAPABILITIES_KEY: {}},
        {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: []},
        {VERSION_KEY: 20260728, CAPABILITIES_KEY: {}},
    ],
)
def test_a_modern_request_without_its_metadata_has_wrong_parameters(meta: object) -> None:
    error = refused(request(_meta=meta), modern())
    assert (error.code, error.status(modern=True)) == (-32602, 400)


@pytest.mark.parametrize("version", ["1900-01-01", "2027-01-01", "draft", ""])
def test_an_unknown_revision_is_answered_with_those_that_are_known(version: str) -> None:
    modern_like = refused(
        request(_meta={**META, VERSION_KEY: version}), {"mcp-protocol-version": version, "mcp-method": "tools/list"}
    )
    legacy_like = refused(request(), {"mcp-protocol-version": version})
    for error in (modern_like, legacy_like):
        assert (error.code, error.status(modern=True), error.status(modern=False)) == (-32022, 400, 400)
        assert error.data == {"supported": list(VERSIONS), "requested": version}


@pytest.mark.parametrize("version", LEGACY)
def test_a_legacy_request_says_its_revision_in_the_header(version: str) -> None:
    assert message_of(request(), {"mcp-protocol-version": version}).version == version


def test_without_header_and_metadata_it_is_the_revision_that_had_neither() -> None:
    assert message_of(request(), {}).version == "2025-03-26"


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [*((version, version) for version in LEGACY), ("2024-11-05", "2025-11-25"), ("2026-07-28", "2025-11-25")],
)
def test_initialize_agrees_on_a_revision_that_has_it(asked: str, agreed: str) -> None:
    assert negotiated(Message(1, "initialize", {"protocolVersion": asked})) == agreed


@pytest.mark.parametrize(
    "value",
    [
        1,
        None,
        "tools/list",
        {},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        {"jsonrpc": "2.0", "id": [], "method": "ping"},
        {"jsonrpc": "2.0", "id": "x" * 257, "method": "ping"},
        {"jsonrpc": "2.0", "id": "\ud800", "method": "ping"},
        {"jsonrpc": "2.0", "id": "a\0", "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": None},
    ],
)
def test_what_is_no_message_is_an_invalid_request(value: object) -> None:
    error = refused(value, {})
    assert (error.code, error.status(modern=False)) == (-32600, 400)


def test_an_id_is_a_string_or_an_integer_and_a_notification_has_none() -> None:
    assert message_of({"jsonrpc": "2.0", "id": "a", "method": "ping"}, {}).id == "a"
    assert message_of({"jsonrpc": "2.0", "id": 0, "method": "ping"}, {}).id == 0
    assert message_of({"jsonrpc": "2.0", "method": "notifications/initialized"}, {}).id is None
    none: list[object] = [True, None, 1.0, []]
    assert [id_of({"id": value, "method": "ping"}) for value in none] == [None] * 4
    others: list[object] = [{"id": 1, "result": {}}, [], None]
    assert [id_of(value) for value in others] == [None] * 3


def test_a_modern_notification_needs_no_more_than_its_revision() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert message_of(note, {"mcp-protocol-version": "2026-07-28"}).version == MODERN
    assert refused(note, {"mcp-protocol-version": "2030-01-01"}).code == -32022


@pytest.mark.parametrize(("version", "taken"), [(None, True), ("2025-03-26", True), ("2025-06-18", False)])
def test_only_one_revision_has_batches(version: str | None, taken: bool) -> None:
    headers = {} if version is None else {"mcp-protocol-version": version}
    if taken:
        assert message_of(request(), headers, batched=True).method == "tools/list"
    else:
        assert refused(request(), headers, batched=True).code == -32600
    assert refused(request("initialize", protocolVersion="2025-03-26"), {}, batched=True).code == -32600


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b'{"id":1,"id":2}', -32700),
        (b'{"a":NaN}', -32700),
        (b"[" * 100 + b"]" * 100, -32700),
        (b"[]", -32600),
        (json.dumps([request()] * 21).encode(), -32600),
    ],
)
def test_a_body_that_is_no_json_is_a_parse_error(raw: bytes, code: int) -> None:
    with pytest.raises(RpcError) as caught:
        values_in(raw)
    assert (caught.value.code, caught.value.status(modern=True)) == (code, 400)


def test_a_body_above_five_mebibytes_is_too_large() -> None:
    with pytest.raises(TooLarge):
        values_in(b" " * (5 * 1024 * 1024 + 1))


@given(JSON, st.dictionaries(st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name"]), st.text(max_size=12)))
def test_nothing_that_is_json_does_more_than_be_refused(value: object, headers: dict[str, str]) -> None:
    found: Message | RpcError
    try:
        found = message_of(value, headers)
    except RpcError as error:
        found = error
    if isinstance(found, RpcError):
        assert found.code in (-32600, -32602, -32020, -32022)
    else:
        assert isinstance(value, dict)
        assert found.method == value["method"]


@pytest.mark.parametrize("bad", ["\0", "\ud800"])
def test_texts_that_cannot_be_stored_are_told_with_the_id_of_their_message(bad: str) -> None:
    assert refused(request("prompts/get", name=f"a{bad}"), {}).code == -32602
    assert refused(request(bad), {}).code == -32602
    # The arguments of a tool are the tool's to refuse, so that a model hears of it.
    assert message_of(request("tools/call", name="x", arguments={"text": bad}), {}).object("arguments") == {"text": bad}


def test_a_method_that_names_nothing_mirrors_nothing() -> None:
    assert message_of(request("tools/list", **{"": "x", "_meta": META}), modern("tools/list")).method == "tools/list"


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    st.sampled_from(["tools/call", "prompts/get"]),
)
def test_every_name_survives_its_header(name: str, method: str) -> None:
    wrapped = f"=?base64?{base64.b64encode(name.encode('utf-8', 'surrogatepass')).decode()}?="
    assert message_of(request(method, name=name, _meta=META), modern(method, wrapped)).text("name") == name


@pytest.mark.parametrize(("code", "modern_status", "legacy_status"), [
    (-32700, 400, 400), (-32600, 400, 400), (-32601, 404, 200), (-32602, 400, 200), (-32603, 200, 200),
])  # fmt: skip
def test_the_http_status_follows_the_revision(code: int, modern_status: int, legacy_status: int) -> None:
    error = RpcError(code, "x")
    assert (error.status(modern=True), error.status(modern=False)) == (modern_status, legacy_status)
