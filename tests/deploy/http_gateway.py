"""A deployed API as the tests' client calls it."""

from __future__ import annotations

import re
import secrets

import urllib3

from infra.local.gateway import Headers, Response

KEY = re.compile(r"((?i:bearer\s+)?)(mk[_-][A-Za-z0-9._-]{1,119})((?::\S*)?)")
CONNECTION = frozenset(
    ("apigw-requestid", "connection", "content-length", "date", "transfer-encoding", "server", "keep-alive")
)
SECONDS = 40.0
"""Longer than any function may take."""


class HttpGateway:
    """Requests over HTTP, those of one test apart from every other's.

    Tests share one deployment and name keys as they like. Each key that the server has not made itself gets an ending
    of this gateway's own, so that it opens another vault than in the test before.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._pool = urllib3.PoolManager(maxsize=16, retries=False, timeout=SECONDS)
        self._ending = secrets.token_hex(4)
        self._made: set[str] = set()

    def handle(self, method: str, path: str, query: str, headers: Headers, body: bytes) -> Response:
        sent = urllib3.HTTPHeaderDict()
        for name, value in headers:
            sent.add(name, self._own(value))
        answer = self._pool.request(
            method, f"{self.url}{path}" + (f"?{query}" if query else ""), body=body or None, headers=sent
        )
        self._made |= set(re.findall(r'"key":"(mk_[^"]+)"', answer.data.decode("utf-8", "replace")))
        kept = tuple((name, value) for name, value in answer.headers.items() if name.lower() not in CONNECTION)
        return Response(answer.status, kept, answer.data)

    def _own(self, value: str) -> str:
        found = KEY.fullmatch(value)
        if found is None or found[2] in self._made:
            return value
        return f"{found[1]}{found[2]}{self._ending}{found[3]}"
