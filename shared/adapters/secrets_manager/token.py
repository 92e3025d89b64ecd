"""A token that is the string of a secret, fetched when it is needed and again now and then, since secrets rotate."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from shared.domain.errors import Unavailable

log = logging.getLogger("strata.secrets")

KEPT_S = 300.0
"""How long a token is used before the secret is read again."""
PAUSE_S = 15.0
"""How long a token that was refused, or a secret that could not be read, is left alone: requests come by the second."""
RETRY_AFTER_S = 5


class Client(Protocol):
    """What is used of the low-level ``secretsmanager`` client."""

    def get_secret_value(self, **request: Any) -> Any: ...


class SecretToken:
    """Threads may share it. `connect` is called once, when the token is first wanted.

    Nothing of the secret gets into an error or a log.
    """

    def __init__(self, connect: Callable[[], Client], secret: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`secret` is a name or an ARN; `clock` counts seconds and never goes back."""
        self._connect, self._secret, self._clock = connect, secret, clock
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._token: str | None = None
        self._read_again = 0.0
        self._checked: float | None = None

    def current(self) -> str:
        """The token; one that is due is used further while its secret cannot be read.

        Raises `Unavailable` ``embedding_unavailable`` when none has been read yet and none can be.
        """
        with self._lock:
            if self._token is None:
                self._token = self._read()
            elif self._clock() >= self._read_again:
                self._read_or_keep()
            return self._token

    def refused(self, token: str) -> bool:
        """Tell that `token` was refused; whether there is another one by now."""
        with self._lock:
            if self._token == token and (self._checked is None or self._clock() >= self._checked + PAUSE_S):
                self._checked = self._clock()
                self._read_or_keep()
            return self._token != token

    def _read_or_keep(self) -> None:
        try:
            self._token = self._read()
        except Unavailable as error:
            self._read_again = self._clock() + PAUSE_S
            log.warning("a secret was not read again: %s", error.message)

    def _read(self) -> str:
        try:
            if self._client is None:
                self._client = self._connect()
            answer = self._client.get_secret_value(SecretId=self._secret)
        except ClientError as error:
            raise _unavailable(f"was refused ({error.response.get('Error', {}).get('Code', 'unknown')})") from error
        except BotoCoreError as error:
            raise _unavailable(f"was not answered ({type(error).__name__})") from error
        token = str(answer.get("SecretString", "")).strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token or token.startswith("{"):
            raise _unavailable("gave something else than a token: the secret's string must be the token alone")
        self._read_again = self._clock() + KEPT_S
        return token


def _unavailable(problem: str) -> Unavailable:
    return Unavailable(
        f"Reading the secret with the embedding endpoint's token {problem}.",
        code="embedding_unavailable",
        hint="The operator should look at STRATA_EMBEDDINGS_SECRET, and at who may read that secret.",
        retry_after=RETRY_AFTER_S,
    )
