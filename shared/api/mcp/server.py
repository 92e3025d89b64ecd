"""What each method of the protocol answers. Knows nothing of HTTP; `shell` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shared.api import strict_json
from shared.api.endpoint import permitted
from shared.api.errors import body_of
from shared.api.mcp import prompts, resources, texts
from shared.api.mcp.protocol import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SERVER_KEY,
    VERSIONS,
    Message,
    Object,
    RpcError,
    negotiated,
)
from shared.api.mcp.results import Result, Run
from shared.api.mcp.tools import BY_NAME, INSTRUCTIONS, Tool
from shared.api.pages import NAME, SUMMARY, VERSION
from shared.domain.errors import InsufficientScope, StaleEpoch, StrataError, Unauthorized
from shared.domain.sizes import ROWS_BYTES, wire_bytes
from shared.usecases.services import Caller, Services

TTL_MS = 300_000
"""How long listings may be kept: a key's scopes never change, a deployment may."""
SERVER: Object = {"name": NAME, "title": "strata memory vault", "version": VERSION, "description": SUMMARY}
CAPABILITIES: Object = {"tools": {}, "resources": {}, "prompts": {}}
# Fewer characters than this fit beside the largest structured content that a tool of that text has.
SHORT = 200_000


@dataclass(frozen=True, slots=True)
class Session:
    """One authenticated HTTP request. `current` runs something with its caller, and again where the vault was emptied
    meanwhile; `failed` is told of errors that are part of a success. Only where the body is `escaped` can a text be
    none that can be stored.
    """

    services: Services
    caller: Caller
    catalog: Sequence[Mapping[str, object]]
    current: Callable[[Callable[[Caller], Object]], Object]
    failed: Callable[[Tool, StrataError], None]
    escaped: bool

    def answer(self, message: Message) -> Object:
        """The result of a request. Raises `RpcError`, `InsufficientScope`, and what only the server can mend."""
        method = _METHODS.get(message.method)
        if method is None or (message.method in _ONLY and _ONLY[message.method] != message.modern):
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {message.method[:80]}")
        result = method(self, message)
        if message.modern:
            result = {"resultType": "complete", **result, "_meta": {SERVER_KEY: SERVER}}
        return result

    def call_tool(self, message: Message) -> Object:
        name, given = message.text("name"), message.object("arguments")
        tool = BY_NAME.get(name)
        if tool is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name[:80]}")
        permitted(self.caller, tool.scopes)
        run = runner(tool)
        try:
            if self.escaped:
                strict_json.check(given)
            return self.current(lambda caller: _shown(run(self.services, caller, given)))
        except (InsufficientScope, Unauthorized, StaleEpoch):
            raise
        except StrataError as error:
            if error.code == StrataError.code:
                raise
            self.failed(tool, error)
            return {"content": [_text(texts.failure(body_of(error)))], "isError": True}

    def list_tools(self, message: Message) -> Object:
        _whole(message)
        seen = [each for each in self.catalog if BY_NAME[str(each["name"])].scopes <= self.caller.scopes]
        return self.kept(message, {"tools": seen})

    def list_resources(self, message: Message) -> Object:
        _whole(message)
        listed = list(resources.RESOURCES) if self.caller.scopes >= resources.SCOPES else []
        return self.kept(message, {"resources": listed})

    def list_templates(self, message: Message) -> Object:
        _whole(message)
        return self.kept(message, {"resourceTemplates": []})

    def read_resource(self, message: Message) -> Object:
        uri = message.text("uri")
        permitted(self.caller, resources.SCOPES)
        read = self.current(lambda caller: resources.read(self.services, caller, uri))
        return self.kept(message, {"contents": [read]}, 0)

    def list_prompts(self, message: Message) -> Object:
        _whole(message)
        listed = list(prompts.PROMPTS) if self.caller.scopes >= prompts.SCOPES else []
        return self.kept(message, {"prompts": listed})

    def get_prompt(self, message: Message) -> Object:
        name, given = message.text("name"), message.object("arguments")
        permitted(self.caller, prompts.SCOPES)
        return prompts.get(name, given)

    def discover(self, message: Message) -> Object:
        found: Object = {"supportedVersions": list(VERSIONS), "capabilities": CAPABILITIES, "serverInfo": SERVER}
        return self.kept(message, {**found, "instructions": INSTRUCTIONS})

    def initialize(self, message: Message) -> Object:
        agreed: Object = {"protocolVersion": negotiated(message), "capabilities": CAPABILITIES, "serverInfo": SERVER}
        return {**agreed, "instructions": INSTRUCTIONS}

    def ping(self, message: Message) -> Object:
        return {}

    def kept(self, message: Message, result: Object, ttl_ms: int = TTL_MS) -> Object:
        """With how long a client may keep it. What a key sees is its own."""
        return {**result, "ttlMs": ttl_ms, "cacheScope": "private"} if message.modern else result


_METHODS: Mapping[str, Callable[[Session, Message], Object]] = {
    "initialize": Session.initialize,
    "ping": Session.ping,
    "server/discover": Session.discover,
    "tools/list": Session.list_tools,
    "tools/call": Session.call_tool,
    "resources/list": Session.list_resources,
    "resources/templates/list": Session.list_templates,
    "resources/read": Session.read_resource,
    "prompts/list": Session.list_prompts,
    "prompts/get": Session.get_prompt,
}
_ONLY: Mapping[str, bool] = {"initialize": False, "ping": False, "server/discover": True}
"""Methods that only one era has: whether it is the modern one."""


def runner(tool: Tool) -> Run:
    """Loads no more use cases than the tool needs: each is paid for when a function starts."""
    if tool.part == "recall":
        from shared.api.mcp import recall

        return recall.RUNS[tool.name]
    if tool.part == "store":
        from shared.api.mcp import store

        return store.RUNS[tool.name]
    if tool.part == "reflect":
        from shared.api.mcp import reflect

        return reflect.RUNS[tool.name]
    from shared.api.mcp import forget

    return forget.RUNS[tool.name]


def _shown(result: Result) -> Object:
    text = result.text
    if len(text) > SHORT and wire_bytes([text, result.structured]) > ROWS_BYTES:
        text = f"{result.brief}The rest is too long to be repeated as text: read structuredContent, or ask for less."
    return {"content": [_text(text)], "structuredContent": result.structured, "isError": False}


def _text(text: str) -> Object:
    return {"type": "text", "text": text}


def _whole(message: Message) -> None:
    """Listings come in one piece. Raises `RpcError` for a cursor: none was given out."""
    if message.params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "There is no page with this cursor; list without one.")
