"""Which modules of the project a function may import, now or later in its life, found by reading them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from infra.functions import FUNCTIONS

PLAIN, SEARCH = "plain", "search"
KINDS = (PLAIN, SEARCH)

_NEVER = {
    "shared.adapters.local_embedder": "no bundle carries a model: the functions ask Bedrock or an endpoint",
    "shared.adapters.sqlite": "the store of the embedded back end",
    "shared.bootstrap.embedded": "the embedded back end",
}
_ASKS_A_MODEL = "reckons with numpy; only functions that search or index ask a model"
LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    PLAIN: {
        **_NEVER,
        "shared.adapters.bedrock": _ASKS_A_MODEL,
        "shared.adapters.openai_embeddings.embedder": _ASKS_A_MODEL,
        "shared.adapters.opensearch": "needs numpy and the client; these functions never open the index",
        "shared.adapters.secrets_manager": "fetches the token of a model",
        "shared.retrieval": "ranks what was found, with numpy",
    },
    SEARCH: _NEVER,
}
"""Modules and packages that some import names and that no function of the kind comes to, each with the reason."""

OWN = ("functions", "shared")
CARRIED = frozenset((".json", ".py"))


def handlers(kind: str) -> list[str]:
    """Names of the functions of a kind."""
    return sorted(function.name for function in FUNCTIONS.values() if function.searches == (kind == SEARCH))


def sources(kind: str, root: Path) -> dict[str, Path]:
    """Path in the bundle → file, of everything of the project that the functions of a kind carry.

    Raises `FileNotFoundError` when a function of the table has no handler.
    """
    found: dict[str, Path] = {}
    folders = [root / "functions" / name for name in handlers(kind)]
    for folder in folders:
        if not (folder / "handler.py").is_file():
            raise FileNotFoundError(f"infra/functions.py names {folder.name}, but {folder / 'handler.py'} is missing")
        found |= {
            str(path.relative_to(root)): path
            for path in folder.rglob("*")
            if path.suffix in CARRIED and path.is_file() and "__pycache__" not in path.parts
        }
    starts = [_name(path, root) for path in found.values() if path.suffix == ".py"]
    for path in modules(starts, LEFT_OUT[kind], root).values():
        found[str(path.relative_to(root))] = path
    return dict(sorted(found.items()))


def modules(starts: Iterable[str], left_out: Collection[str], root: Path) -> dict[str, Path]:
    """Module → file, of all own modules that can be reached by imports from `starts`, with the packages they lie in.

    Imports inside functions count; those for type checkers alone do not.
    """
    found: dict[str, Path] = {}
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        path = located(name, root)
        if path is None or name in found or within(name, left_out):
            continue
        found[name] = path
        waiting += imported(name, root)
        if "." in name:
            waiting.append(name.rpartition(".")[0])
    return found


def imported(name: str, root: Path) -> set[str]:
    """The own modules that one module imports anywhere in its text."""
    path = located(name, root)
    if path is None:
        return set()
    named = _names(ast.parse(path.read_text("utf-8")))
    return {name for name in named if name.split(".")[0] in OWN and located(name, root) is not None}


def located(name: str, root: Path) -> Path | None:
    base = root.joinpath(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def within(name: str, packages: Collection[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def _name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _names(node: ast.AST) -> Iterator[str]:
    """What is imported below a node. Of ``from a import b`` it is not known whether b is a module: both are told."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        for other in node.orelse:
            yield from _names(other)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _names(child)
