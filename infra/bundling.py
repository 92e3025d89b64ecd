"""Zips for Lambda, made without Docker. One serves all functions of a kind: the name of the handler tells them apart.

>>> bundle("search", "3.13", "arm64")
PosixPath('.../.cache/bundles/search-3.13-arm64-….zip')
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from infra.bundles import archive, packages, reach
from infra.bundles.packages import PLATFORMS, BundleError, running_python
from infra.bundles.reach import KINDS, PLAIN, SEARCH

__all__ = ["KINDS", "PLAIN", "SEARCH", "BundleError", "bundle", "compiles", "running_python"]

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "bundles"
KEPT = 2
"""How many zips of one kind, Python and architecture stay in the cache."""


def bundle(kind: str, python: str, architecture: str, folder: Path = CACHE) -> Path:
    """The zip of a kind of functions, in `folder`, where it is found again until something that it is made of changes.

    `kind` is ``plain`` or ``search``, `python` a version such as ``3.13``, `architecture` ``arm64``, ``x86_64``, or
    ``native`` for this machine. Installing packages the first time needs the package index. Modules are byte-compiled
    if that Python is found on this machine; without, a cold start takes more than twice the CPU.

    Raises `BundleError` when the packages cannot be installed.
    """
    if kind not in KINDS or architecture not in PLATFORMS:
        raise BundleError(
            f"no bundle {kind!r} for {architecture!r}: use {' or '.join(KINDS)}, and one of {', '.join(PLATFORMS)}"
        )
    own = reach.sources(kind, ROOT)
    prefix = f"{kind}-{python}-{architecture}"
    compiler = packages.interpreter(python, ROOT)
    target = folder / f"{prefix}-{_fingerprint(prefix, compiler is not None, own)}.zip"
    if not target.is_file():
        installed = packages.installed(kind, python, architecture, folder, ROOT)
        archive.write({**packages.carried(installed), **own}, compiler, target)
        _forget(folder, prefix)
    return target


def compiles(python: str) -> bool:
    """Whether this machine has that Python, so that zips for it are byte-compiled."""
    return packages.interpreter(python, ROOT) is not None


def _fingerprint(prefix: str, compiled: bool, own: Mapping[str, Path]) -> str:
    """Stands for everything that decides over the bytes of a zip."""
    code = [Path(__file__), *sorted((ROOT / "infra" / "bundles").glob("*.py"))]
    inputs = {
        "bundle": prefix,
        "compiled": compiled,
        "packages": packages.lock_hash(ROOT),
        "bundling": [_hash(path) for path in code],
        "own": {name: _hash(path) for name, path in own.items()},
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:20]


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _forget(folder: Path, prefix: str) -> None:
    made = sorted(folder.glob(f"{prefix}-*.zip"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in made[KEPT:]:
        path.unlink(missing_ok=True)
