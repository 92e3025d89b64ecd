"""Bundles of this machine, unpacked once."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from infra.bundling import bundle, running_python


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder with what the bundle of a kind holds, for this Python on this machine."""

    @cache
    def unpack(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        with zipfile.ZipFile(bundle(kind, running_python(), "native")) as archive:
            archive.extractall(folder)
        return folder

    return unpack
