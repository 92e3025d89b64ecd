"""The repository as another release would have it: a copy of its sources with something changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from infra.toolkit import ROOT

SOURCES = ("functions", "infra", "shared")
FILES = ("cdk.json", "pyproject.toml", "uv.lock")
MADE = (".tools", ".cache")
INDEX_SECONDS = 300


class Release:
    """Sources in `folder`, with what the tools made in common with the repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        for name in SOURCES:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in FILES:
            shutil.copy2(ROOT / name, folder / name)
        for name in MADE:
            (ROOT / name).mkdir(exist_ok=True)
            (folder / name).symlink_to(ROOT / name)

    def change(self, file: str, before: str, after: str) -> None:
        path = self.folder / file
        text = path.read_text("utf-8")
        assert text.count(before) == 1, f"{file} has {text.count(before)} times {before!r}"
        path.write_text(text.replace(before, after), "utf-8")

    def index(self, command: str, variables: Mapping[str, str]) -> str:
        """What ``python -m infra.index COMMAND`` of this release says; it must end well."""
        return index(self.folder, command, variables)


def index(folder: Path, command: str, variables: Mapping[str, str]) -> str:
    """What the sources in `folder` say to ``python -m infra.index COMMAND``; it must end well."""
    ran = subprocess.run(
        [sys.executable, "-m", "infra.index", *command.split()],
        cwd=folder,
        env=dict(variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=INDEX_SECONDS,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
