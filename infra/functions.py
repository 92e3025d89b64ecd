"""Every function that is deployed, and how large. The stacks, the bundles and the grants are built from this table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shared.api.routes import ROUTES

ANSWER_SECONDS = 29
"""API Gateway waits 30 seconds for an answer."""


@dataclass(frozen=True, slots=True)
class Function:
    """One Lambda. Its handler is ``functions/<name>/handler.py``; memory is in MB and decides its share of a CPU.

    `searches` says that it talks to the search store, and therefore carries the packages of the extra ``search``.
    """

    name: str
    memory: int = 512
    seconds: int = ANSWER_SECONDS
    searches: bool = False

    @property
    def handler(self) -> str:
        return f"functions.{self.name}.handler.handler"


_SEARCHING = ("date_search", "stats", "warmup", "delete_vault")
_RETRIEVING = ("search", "prepare", "mcp")
"""They mostly wait, and waiting costs by memory: ``docs/costs.md`` compares."""
_LARGE = ("upload", "import_vault", "export")
_FIXED = ("home", "openapi", "protected_resource")

INDEXER = "indexer"
PROVISION = "provision"
UNROUTED = "unrouted"
"""Answers every request that no route takes."""


def _functions() -> dict[str, Function]:
    found = {route.folder: Function(route.folder) for route in ROUTES}
    for name in _SEARCHING:
        found[name] = replace(found[name], memory=1024, searches=True)
    for name in _RETRIEVING:
        found[name] = replace(found[name], memory=640, searches=True)
    for name in _LARGE:
        found[name] = replace(found[name], memory=1024)
    for name in _FIXED:
        found[name] = replace(found[name], memory=256)
    found[UNROUTED] = Function(UNROUTED, memory=256)
    found[INDEXER] = Function(INDEXER, memory=1769, seconds=300, searches=True)
    found[PROVISION] = Function(PROVISION, seconds=300, searches=True)
    return found


FUNCTIONS = _functions()
