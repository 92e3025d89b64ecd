"""A chat endpoint as OpenAI's, whose answers are written beforehand."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

PATH = "/v1/chat/completions"
MATERIAL = re.compile(r"^<material (\w+)>\n(.*)\n</material \1>$", re.MULTILINE | re.DOTALL)
# Of the longest wait of a slow model; a test that ends earlier does not wait for it.
LONGEST_S = 60.0

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Step:
    """One answer: `text` is the content or makes it of the messages; it comes after `wait_s`, with this `status`.

    A `body` is sent as it is. `prompt_tokens` is what the model says to have read.
    """

    text: str | Callable[[Messages], str] = ""
    wait_s: float = 0.0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    prompt_tokens: int | None = None


def material(messages: Messages) -> list[dict[str, str]]:
    """The memories of the first message, as the model is given them."""
    found = MATERIAL.search(messages[0]["content"])
    assert found is not None, messages[0]["content"]
    return [json.loads(line) for line in found[2].split("\n")]


def well_behaved(messages: Messages) -> str:
    """At most ten entries, each for five memories or more, of which it quotes the first."""
    memories = material(messages)
    size = max(5, -(-len(memories) // 10))
    parts = [memories[start : start + size] for start in range(0, len(memories), size)]
    entries = [
        {"text": f"On {part[0]['date'][:10]} this was told: {part[0]['text'][:200]}", "importance": 1 + number % 10}
        for number, part in enumerate(parts)
    ]
    return json.dumps(entries, ensure_ascii=False)


class ScriptedModel:
    """Listens between ``with`` and its end. The last step of the script answers whatever comes after it."""

    def __init__(self, *script: Step) -> None:
        self._script = list(script) or [Step(well_behaved)]
        self.bodies: list[dict[str, Any]] = []
        self.authorizations: list[str | None] = []
        self.over = threading.Event()
        self.asked = threading.Event()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{PATH.removesuffix('/chat/completions')}"

    @property
    def prompts(self) -> Iterator[str]:
        """Everything that the model was told."""
        return (message["content"] for body in self.bodies for message in body["messages"])

    def next_step(self, body: dict[str, Any], authorization: str | None) -> Step:
        step = self._script[min(len(self.bodies), len(self._script) - 1)]
        self.bodies.append(body)
        self.authorizations.append(authorization)
        self.asked.set()
        return step

    def __enter__(self) -> ScriptedModel:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up is part of the game."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        model = self.server.model
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != PATH or set(body) != {"model", "messages"}:
            self._send(400, {}, b'{"error": {"message": "not asked as agreed", "code": "bad_request"}}')
            return
        step = model.next_step(body, self.headers["Authorization"])
        model.over.wait(min(step.wait_s, LONGEST_S))
        if step.body is not None or step.status != 200:
            self._send(step.status, step.headers, step.body or b'{"error": {"message": "quoted", "code": "scripted"}}')
            return
        text = step.text if isinstance(step.text, str) else step.text(body["messages"])
        answer: dict[str, Any] = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
        if step.prompt_tokens is not None:
            answer["usage"] = {"prompt_tokens": step.prompt_tokens}
        self._send(200, step.headers, json.dumps(answer).encode())

    def _send(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        return None
