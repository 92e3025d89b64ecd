"""Model files that ship inside installed packages, read as data. The packages themselves are never imported."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from shared.domain.errors import Unavailable


@dataclass(frozen=True, slots=True)
class PackagedFile:
    """A file by its place in a package and its SHA-256, which pins the very model that vectors were made with."""

    package: str
    path: str
    sha256: str

    def locate(self) -> Path:
        """Raises `Unavailable` when the package or the file is missing or is not the pinned one."""
        # For a top-level name this reads the file system only; it runs no code of the package.
        spec = find_spec(self.package)
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        if not folders:
            raise Unavailable(
                f"The embedding model needs the package {self.package}, which is not installed.",
                code="embedding_unavailable",
                hint="Install the extra `local`, or choose another model with STRATA_EMBEDDER.",
            )
        file = Path(folders[0]) / self.path
        if not file.is_file() or _sha256(file) != self.sha256:
            raise Unavailable(
                f"The file {self.path} of the package {self.package} is not the one this version was made for.",
                code="embedding_unavailable",
                hint="Install the versions named in the lock file.",
            )
        return file


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
