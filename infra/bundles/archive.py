"""A zip whose bytes depend on nothing but what is in it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can hold."""
LEVEL = 6
_REGULAR, _UNIX = 0o100000, 3


def write(files: Mapping[str, Path], compiler: str | None, target: Path) -> None:
    """Make `target` of files, by their paths in it; it appears whole or not at all.

    `compiler` is an interpreter of the Python that will run them: a function cannot keep what it compiles itself.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="writing-", dir=target.parent) as work:
        stage, made = Path(work) / "stage", Path(work) / "made.zip"
        for name, source in files.items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, stage / name)
        if compiler is not None:
            _compile(stage, compiler)
        _pack(stage, made)
        made.replace(target)


def _compile(stage: Path, compiler: str) -> None:
    """In a process of its own: what else has been loaded decides over bytes of compiled code."""
    isolated = ["-B", "-P", "-S", "-s", "-W", "ignore"]
    chosen = ["-q", "-f", "-o", "0", "--invalidation-mode", "unchecked-hash", "-s", str(stage)]
    subprocess.run(
        [compiler, *isolated, "-m", "compileall", *chosen, str(stage)],
        env={"PYTHONHASHSEED": "0"},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _pack(stage: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for path in sorted(stage.rglob("*"), key=lambda path: path.relative_to(stage).as_posix()):
            if path.is_file():
                name = path.relative_to(stage).as_posix()
                entry = zipfile.ZipInfo(name, BEGINNING)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system = _UNIX
                executable = ".so" in path.suffixes
                entry.external_attr = (_REGULAR | (0o755 if executable else 0o644)) << 16
                archive.writestr(entry, path.read_bytes())
