"""JSON-RPC over one HTTP request, in every revision of the protocol that is spoken here.

Two eras share the endpoint. A modern request (``2026-07-28``) says by itself which revision it is written in, in
``params._meta`` and again in headers that must agree; a legacy one was preceded by ``initialize`` and says it in a
header, or not at all. Nothing is remembered from one request to the next.

Source: the specification's pages *Versioning and Compatibility*, *Streamable HTTP* and *Overview*, 2026-07-28.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.api import strict_json
from shared.domain.errors import InvalidRequest
from shared.domain.text import storable_problem

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")
VERSIONS = (MODERN, *LEGACY)
WITHOUT_HEADER = "2025-03-26"
"""What a request without the header speaks: the header came with the revision after."""
BATCHING = "2025-03-26"
"""The only revision in which several messages may share one body."""
MAX_BATCH = 20
MAX_ID_CHARACTERS = 256

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022

VERSION_HEADER, METHOD_HEADER, NAME_HEADER = "mcp-protocol-version", "mcp-method", "mcp-name"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
OPENING, CLOSING = "=?base64?", "?="
NAMED_BY: Mapping[str, str] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

_MALFORMED = frozenset((PARSE_ERROR, INVALID_REQUEST, HEADER_MISMATCH, UNSUPPORTED_VERSION))

Id = str | int | None
Object = dict[str, object]


class RpcError(Exception):
    """A message that is no proper request. `data` says more to a program; neither holds stored text."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def body(self) -> Object:
        error: Object = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}

    def status(self, modern: bool) -> int:
        """Of the HTTP answer. The older revisions tell of unknown methods and wrong parameters inside a success."""
        if self.code in _MALFORMED or (modern and self.code == INVALID_PARAMS):
            return 400
        return 404 if modern and self.code == METHOD_NOT_FOUND else 200


@dataclass(frozen=True, slots=True)
class Message:
    """One request; a notification where `id` is None. `version` is the revision that it is to be answered in."""

    id: Id
    method: str
    params: Object = field(default_factory=dict)
    version: str = WITHOUT_HEADER

    @property
    def modern(self) -> bool:
        return self.version == MODERN

    def text(self, name: str) -> str:
        """A parameter that must be a string. Raises `RpcError`."""
        value = self.params.get(name)
        if not isinstance(value, str):
            raise RpcError(INVALID_PARAMS, f"params.{name} must be a string")
        return value

    def object(self, name: str) -> Object:
        """A parameter that is an object, empty where it is missing. Raises `RpcError`."""
        value = self.params.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise RpcError(INVALID_PARAMS, f"params.{name} must be an object")
        return value


def values_in(raw: bytes) -> tuple[list[object], bool]:
    """The JSON values of a body, and whether they came as a batch. Raises `RpcError`, and `TooLarge` above 5 MiB.

    Texts that cannot be stored are looked for message by message, so that the right one is told.
    """
    strict_json.check_raw_size(raw)
    try:
        value = strict_json.parse(strict_json.decode(raw), storable=False)
    except InvalidRequest as error:
        raise RpcError(PARSE_ERROR, error.message) from None
    if not isinstance(value, list):
        return [value], False
    if not 1 <= len(value) <= MAX_BATCH:
        raise RpcError(INVALID_REQUEST, f"a batch holds 1 to {MAX_BATCH} messages")
    return value, True


def message_of(value: object, headers: Mapping[str, str], batched: bool = False, escaped: bool = True) -> Message:
    """A message whose envelope and headers were checked. Raises `RpcError`; what can be known of its id: `id_of`.

    Its arguments alone may still hold texts that cannot be stored: whoever takes them refuses them. Where its body has
    no escapes (`escaped`), nothing in it can hold such a text.
    """
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'a message is an object with "jsonrpc": "2.0"')
    method, params = value.get("method"), value.get("params", {})
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "a message needs its method; responses are not taken here")
    if "id" in value and id_of(value) is None:
        raise RpcError(
            INVALID_REQUEST, f"the id must be an integer or a string of up to {MAX_ID_CHARACTERS} characters"
        )
    if not isinstance(params, dict):
        raise RpcError(INVALID_REQUEST, "params must be an object")
    if escaped:
        _check_texts({**value, "params": {name: each for name, each in params.items() if name != "arguments"}})
    version = _version(method, params, headers, notified="id" not in value)
    if batched and version != BATCHING:
        raise RpcError(INVALID_REQUEST, f"revision {version} takes one message a request, not a batch")
    if batched and method == "initialize":
        raise RpcError(INVALID_REQUEST, "initialize cannot be part of a batch")
    return Message(id_of(value), method, params, version)


def id_of(value: object) -> Id:
    """The id of a message that asks for something, as far as it has a proper one."""
    found = value.get("id") if isinstance(value, dict) and "method" in value else None
    if isinstance(found, str):
        return found if len(found) <= MAX_ID_CHARACTERS and storable_problem(found) is None else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def negotiated(message: Message) -> str:
    """The revision that ``initialize`` agrees on: the one asked for, else the newest that has this handshake."""
    asked = message.text("protocolVersion")
    return asked if asked in LEGACY else LEGACY[0]


def _check_texts(value: object) -> None:
    try:
        strict_json.check(value)
    except InvalidRequest as error:
        raise RpcError(INVALID_PARAMS, error.message) from None


def _version(method: str, params: Object, headers: Mapping[str, str], notified: bool) -> str:
    named = headers.get(VERSION_HEADER)
    meta = params.get("_meta")
    claims = isinstance(meta, dict) and VERSION_KEY in meta
    if not claims and (named is None or named in LEGACY):
        return named or WITHOUT_HEADER
    if not claims and named not in VERSIONS:
        raise _unsupported(named)
    if notified and named == MODERN:
        # Which headers a notification carries is left open; nothing is done for one anyhow.
        return MODERN
    if not isinstance(meta, dict) or VERSION_KEY not in meta or not isinstance(meta.get(CAPABILITIES_KEY), dict):
        need = f"{VERSION_KEY} (a string) and {CAPABILITIES_KEY} (an object)"
        raise RpcError(INVALID_PARAMS, f"params._meta must hold {need}")
    claimed = meta[VERSION_KEY]
    if not isinstance(claimed, str):
        raise RpcError(INVALID_PARAMS, f"params._meta: {VERSION_KEY} must be a string")
    _agree("MCP-Protocol-Version", named, claimed)
    _agree("Mcp-Method", headers.get(METHOD_HEADER), method)
    name = name_in(method, params)
    if name is not None:
        _agree("Mcp-Name", _decoded(headers.get(NAME_HEADER)), name)
    if claimed != MODERN:
        raise _unsupported(claimed)
    return MODERN


def _agree(header: str, found: str | None, expected: str) -> None:
    if found != expected:
        how = "is missing" if found is None else "does not say what the body says"
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {header} {how}")


def name_in(method: str, params: Object) -> str | None:
    """What a request names, and its ``Mcp-Name`` says again; None where it names nothing, or no text."""
    name = params.get(NAMED_BY[method]) if method in NAMED_BY else None
    return name if isinstance(name, str) else None


def is_plain(text: str) -> bool:
    """Whether a header carries it as it is."""
    return text.isascii() and text.replace("\t", " ").isprintable() and text.strip() == text


def header_value(text: str) -> str:
    """`text` as a header carries it: in Base64 between two marks where it is no plain ASCII, or looks so wrapped."""
    if is_plain(text) and not _wrapped(text):
        return text
    return f"{OPENING}{base64.b64encode(text.encode('utf-8', 'replace')).decode()}{CLOSING}"


def _wrapped(value: str) -> bool:
    return value.startswith(OPENING) and value.endswith(CLOSING)


def _decoded(value: str | None) -> str | None:
    """What `header_value` made the value of."""
    if value is None or not _wrapped(value):
        return value
    try:
        return base64.b64decode(value[len(OPENING) : -len(CLOSING)], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        raise RpcError(HEADER_MISMATCH, "Header mismatch: Mcp-Name is no Base64 of UTF-8 text") from None


def _unsupported(requested: object) -> RpcError:
    data = {"supported": list(VERSIONS), "requested": requested}
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
