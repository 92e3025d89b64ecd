"""Requests to an OpenSearch domain or node; the only module that knows the client library."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from opensearchpy import OpenSearch, Urllib3AWSV4SignerAuth, Urllib3HttpConnection
from opensearchpy.exceptions import ConnectionError as NoConnection
from opensearchpy.exceptions import ConnectionTimeout, OpenSearchException, SerializationError, TransportError

from shared.domain.errors import Unavailable

Json = dict[str, Any]

RETRY_AFTER = 2
"""Seconds, for callers that find the search store down."""
CREATE, FILL = "python -m infra.index create", "python -m infra.index rebuild"
"""The one makes an index that is missing, the other also fills it from the table."""
BUSY = frozenset((429, 502, 503, 504))

# Every retry and every failed connection would be a warning with a traceback.
logging.getLogger("opensearch").setLevel(logging.CRITICAL)


class RowsRefused(Unavailable):
    """The index took everything but some rows. `memory_ids` name them, so that the rest need not be sent again."""

    def __init__(self, message: str, memory_ids: Sequence[str]) -> None:
        super().__init__(message, code="search_unavailable", retry_after=RETRY_AFTER)
        self.memory_ids = tuple(memory_ids)


class Rejected(Exception):
    """The store answered with an error status. `kind` is its own name for it."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(f"{status} {kind}: {message}")
        self.status = status
        self.kind = kind


def unavailable(why: str) -> Unavailable:
    return Unavailable(
        f"The search store {why}.",
        code="search_unavailable",
        hint="Send the request again. Writing, consolidation and reading by id or date go on without it.",
        retry_after=RETRY_AFTER,
    )


def not_created(index: str) -> Unavailable:
    return unavailable(
        f"has no usable index {index}: run `{CREATE}` for a new installation, `{FILL}` for one with rows"
    )


class Transport:
    """Raises `Unavailable` ``search_unavailable`` when no answer comes after `attempts`, `Rejected` for other errors.

    `credentials` (those of a botocore session) and `region` sign every request, as managed domains want it.
    """

    def __init__(
        self,
        url: str,
        credentials: object | None = None,
        region: str = "",
        *,
        timeout: float = 10.0,
        attempts: int = 4,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        secure = urlsplit(url).scheme == "https"
        # The client would try again by itself, without a pause.
        options: Json = {"max_retries": 0, "http_compress": secure, "timeout": timeout, "pool_maxsize": 10}
        if credentials is not None:
            options["http_auth"] = Urllib3AWSV4SignerAuth(credentials, region, "es")
        self._client = OpenSearch([url], connection_class=Urllib3HttpConnection, **options)
        self._attempts, self._sleep = attempts, sleep

    def close(self) -> None:
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Json:
        """One request whose repetition does no harm. Answers with the decoded body."""
        for attempt in range(1, self._attempts + 1):
            try:
                answer = self._client.transport.perform_request(method, path, params=dict(params or {}), body=body)
                return answer if isinstance(answer, dict) else {"found": bool(answer)}
            except (NoConnection, ConnectionTimeout) as error:
                # A node that is slow is not asked twice: the caller waits long enough already.
                if isinstance(error, ConnectionTimeout) or attempt == self._attempts:
                    raise unavailable("does not answer") from error
            except TransportError as error:
                status = error.status_code if isinstance(error.status_code, int) else 0
                if status not in BUSY:
                    raise Rejected(status, str(error.error), _reason(error)) from error
                if attempt == self._attempts:
                    raise unavailable(f"is busy ({status})") from error
            except (SerializationError, OpenSearchException) as error:
                raise unavailable("answered with something else than JSON") from error
            self._pause(attempt)
        raise AssertionError("unreachable")

    def search(self, index: str, routing: str | None, body: Json, scores: bool = False) -> Json:
        """`scores` asks for the score of every named query beside each hit."""
        params = {"ignore_unavailable": "true"} if "*" in index else {}
        if routing is not None:
            # Always the same copy, so that two searches see the same documents.
            params |= {"routing": routing, "preference": routing}
        if scores:
            params["include_named_queries_score"] = "true"
        found = self._of_index(index, "POST", f"/{_path(index)}/_search", body, params)
        if found.get("timed_out") or found["_shards"]["failed"]:
            raise unavailable("answered in part only")
        return found

    def mget(self, index: str, routing: str, ids: Sequence[str], source: Sequence[str]) -> list[Json]:
        """Documents by id as they are now, also those that no search finds yet; absent ones are left out."""
        if not ids:
            return []
        docs = [{"_id": name, "routing": routing, "_source": list(source)} for name in ids]
        for attempt in range(1, self._attempts + 1):
            found = self._of_index(index, "POST", f"/{_path(index)}/_mget", {"docs": docs}, {})["docs"]
            kinds = {str(doc["error"].get("type")) for doc in found if "error" in doc}
            if "index_not_found_exception" in kinds:
                raise not_created(index)
            if not kinds:
                return [doc for doc in found if doc["found"]]
            # A shard that has just been made, or moves, is not ready for a moment.
            if attempt < self._attempts:
                self._pause(attempt)
        raise unavailable("answered in part only")

    def bulk(
        self, index: str, lines: Sequence[tuple[Json, str | None]], refresh: bool, alias: bool = True
    ) -> list[Json]:
        """(action, source) pairs; returns what became of each, in order. Busy ones are sent again.

        `index` must be an alias unless told otherwise: a store that makes missing indexes by itself makes useless ones.
        """
        results: dict[int, Json] = {}
        waiting = list(range(len(lines)))
        for attempt in range(1, self._attempts + 1):
            body = "".join(_lines(lines[place] for place in waiting))
            params = {"refresh": "true"} if refresh else {}
            if alias:
                params["require_alias"] = "true"
            answer = self._of_index(index, "POST", f"/{_path(index)}/_bulk", body, params)
            for place, item in zip(waiting, answer["items"], strict=True):
                results[place] = next(iter(item.values()))
                if results[place].get("error", {}).get("type") == "index_not_found_exception":
                    raise not_created(index)
            waiting = [place for place in waiting if results[place]["status"] in BUSY]
            if not waiting:
                return [results[place] for place in range(len(lines))]
            if attempt < self._attempts:
                self._pause(attempt)
        raise unavailable("is too busy to write")

    def refresh(self, index: str) -> None:
        self._of_index(index, "POST", f"/{_path(index)}/_refresh", None, {})

    def _of_index(self, index: str, method: str, path: str, body: Json | str | None, params: Json) -> Json:
        try:
            return self.request(method, path, body, params)
        except Rejected as error:
            if error.kind == "index_not_found_exception":
                raise not_created(index) from error
            raise unavailable(f"refused a request ({error.status} {error.kind})") from error

    def _pause(self, attempt: int) -> None:
        self._sleep(random.uniform(0.5, 1.0) * 0.1 * 2**attempt)


def _path(index: str) -> str:
    return quote(index, safe="*,")


def _lines(pairs: Iterable[tuple[Json, str | None]]) -> Iterable[str]:
    for action, source in pairs:
        yield json.dumps(action, separators=(",", ":")) + "\n"
        if source is not None:
            yield source + "\n"


def _reason(error: TransportError) -> str:
    info = error.info
    cause = info.get("error") if isinstance(info, dict) else None
    return str(cause.get("reason", "")) if isinstance(cause, dict) else ""
