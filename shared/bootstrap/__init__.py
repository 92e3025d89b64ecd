"""Puts the parts together: the only place that knows which adapter stands behind which port.

A back end is imported when it is chosen, so that a function loads nothing of the other one.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from shared.bootstrap.models import local_embedders
from shared.settings import AWS, Settings, load
from shared.usecases.services import Services

if TYPE_CHECKING:
    from shared.bootstrap.aws import Aws
    from shared.bootstrap.embedded import Embedded

__all__ = ["Aws", "Backend", "Embedded", "activate", "chosen", "local_embedders", "services"]


class Backend(Protocol):
    """A whole back end, its own until `close`."""

    services: Services

    def close(self) -> None: ...


def chosen(settings: Settings) -> Backend:
    """The back end that the settings name. Raises `Unavailable` when it cannot be used."""
    if settings.backend == AWS:
        from shared.bootstrap.aws import Aws

        return Aws(settings)
    from shared.bootstrap.embedded import Embedded

    return Embedded(settings)


class _Process:
    """What this process serves. A Lambda builds it from its environment on the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._backend: Backend | None = None

    def activate(self, backend: Backend | None) -> None:
        with self._lock:
            self._backend = backend

    def services(self) -> Services:
        with self._lock:
            if self._backend is None:
                self._backend = chosen(load())
            return self._backend.services


_process = _Process()


def activate(backend: Backend | None) -> None:
    """Make `backend` what `services` answers with; None forgets it."""
    _process.activate(backend)


def services() -> Services:
    """The services of this process, built from the environment on first use unless a back end was activated."""
    return _process.services()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "Embedded":
            from shared.bootstrap.embedded import Embedded

            return Embedded
        if name == "Aws":
            from shared.bootstrap.aws import Aws

            return Aws
        raise AttributeError(name)
