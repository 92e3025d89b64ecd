"""The packages that a bundle carries: exactly those of the lock file, as wheels of the platform it runs on."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from infra.bundles.reach import SEARCH

# The machines of Lambda. None: this one, whatever it is, for an emulator that runs functions in its own Python.
PLATFORMS = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28", "native": None}

SERVICES = ("bedrock-runtime", "dynamodb", "secretsmanager", "sqs", "sts")
"""AWS services that functions make clients of; botocore's descriptions of all others stay behind."""

_DROPPED = (
    # Command lines, and clients that botocore alone replaces.
    "bin",
    "boto3",
    "s3transfer",
    # A web framework with a user interface of its own.
    "aws_lambda_powertools/event_handler",
    # Clients that need aiohttp; without it their import fails anyhow, only later.
    "opensearchpy/_async/client",
    "opensearchpy/_async/plugins",
    # The old major version in the new one, for models that mix both.
    "pydantic/v1",
    # What only compilers, tests and type checkers of other packages need.
    "numpy/_core/include",
    "numpy/_core/lib",
    "numpy/_pyinstaller",
    "numpy/conftest.py",
    "numpy/distutils",
    "numpy/doc",
    "numpy/f2py",
    "numpy/random/_examples",
    "numpy/random/lib",
    "numpy/typing/tests",
)
_UTILITIES, _USED_UTILITIES = "aws_lambda_powertools/utilities", frozenset(("__init__.py", "jmespath_utils", "typing"))
"""Logger and Metrics need these alone."""
_DROPPED_FOLDERS = frozenset(("__pycache__", "tests"))
_DROPPED_SUFFIXES = frozenset((".a", ".lock", ".pxd", ".pyc", ".pyi", ".pyx"))
_DROPPED_NAMES = frozenset(("py.typed", ".lock"))
# numpy's extensions that only its own tests load.
_TEST_EXTENSION = "_tests.cpython-"
_LICENCE_WORDS = ("licen", "notice", "copying", "authors")
LICENCES = "licenses"


class BundleError(Exception):
    """A bundle cannot be made. The message says what to do."""


def lock_hash(root: Path) -> str:
    return hashlib.sha256((root / "uv.lock").read_bytes()).hexdigest()


def installed(kind: str, python: str, architecture: str, folder: Path, root: Path) -> Path:
    """A folder with the packages of a kind, installed once for each lock file, Python and architecture.

    Raises `BundleError` when uv is missing, or a package has no wheel for the platform or cannot be fetched.
    """
    named = "\0".join((lock_hash(root), kind, python, architecture, sys.platform))
    place = folder / f"packages-{hashlib.sha256(named.encode()).hexdigest()[:16]}"
    if place.is_dir():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="exporting-", dir=folder) as work:
        wanted = Path(work) / "requirements.txt"
        _export(kind, wanted, root)
        install(wanted, place, python, architecture, root)
    return place


def install(wanted: Path, place: Path, python: str, architecture: str, root: Path) -> None:
    """Make the folder `place` and in it exactly what a requirements file names with hashes, from wheels alone.

    Raises as `installed`.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    platform = PLATFORMS[architecture]
    target = ["--python-version", python, *(() if platform is None else ("--python-platform", platform))]
    # Copies: what is linked to the cache of uv could be changed there.
    exact = ["--only-binary", ":all:", "--require-hashes", "--no-deps", "--link-mode", "copy"]
    with tempfile.TemporaryDirectory(prefix="installing-", dir=place.parent) as work:
        filled = Path(work) / "packages"
        _uv(["pip", "install", "--target", str(filled), *target, *exact, "--requirements", str(wanted)], root)
        try:
            filled.rename(place)
        except OSError:
            # Another process was faster; its folder holds the same.
            if not place.is_dir():
                raise


def _export(kind: str, wanted: Path, root: Path) -> None:
    extra = ["--extra", SEARCH] if kind == SEARCH else []
    chosen = ["--frozen", "--no-dev", "--no-default-groups", "--no-emit-project", *extra]
    output = ["--format", "requirements-txt", "--no-header", "--no-annotate", "--output-file", str(wanted)]
    _uv(["export", *chosen, *output], root)


def _uv(arguments: Sequence[str], root: Path) -> None:
    tool = _tool(root)
    if tool is None:
        raise BundleError("uv is neither in .tools/bin nor on the PATH: run `make install`")
    command = [tool, *arguments, "--python", sys.executable, "--no-python-downloads", "--quiet"]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise BundleError(f"uv {arguments[0]} could not install the packages:\n{ran.stderr.strip()}")


def _tool(root: Path) -> str | None:
    own = root / ".tools" / "bin" / ("uv.exe" if os.name == "nt" else "uv")
    return str(own) if own.is_file() else shutil.which("uv")


def running_python() -> str:
    """The version of this interpreter as Lambda names its runtimes, such as ``3.13``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def interpreter(python: str, root: Path) -> str | None:
    """An interpreter of that version: this one, or another of this machine; None when there is none."""
    tool = _tool(root)
    if python == running_python() or tool is None:
        return sys.executable if python == running_python() else None
    command = [tool, "python", "find", python, "--no-project", "--system", "--no-python-downloads"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else None


def carried(package_folder: Path) -> dict[str, Path]:
    """Path in the bundle → file, of what is needed at run time of a folder made by `installed`.

    The licences travel with what they are about; other metadata of distributions does not, since nothing reads it.
    """
    found: dict[str, Path] = {}
    for path in sorted(package_folder.rglob("*")):
        if path.is_file():
            place = _place(PurePosixPath(path.relative_to(package_folder).as_posix()))
            if place is not None:
                found[str(place)] = path
    return found


def _place(path: PurePosixPath) -> PurePosixPath | None:
    """Where a file of an installed package lies in the bundle; None for a file that stays behind."""
    top = path.parts[0]
    if top.endswith(".dist-info"):
        distribution = top.removesuffix(".dist-info")
        if distribution.startswith(("boto3-", "s3transfer-")) or not _is_licence(path):
            return None
        return PurePosixPath(LICENCES, distribution, *path.parts[1:])
    dropped = (
        any(path.is_relative_to(name) for name in _DROPPED)
        or not _DROPPED_FOLDERS.isdisjoint(path.parts)
        or path.suffix in _DROPPED_SUFFIXES
        or path.name in _DROPPED_NAMES
        or _TEST_EXTENSION in path.name
        or (path.is_relative_to(_UTILITIES) and path.parts[2] not in _USED_UTILITIES)
        or _of_another_service(path)
    )
    return path if not dropped or _is_licence(path) else None


def _is_licence(path: PurePosixPath) -> bool:
    return path.suffix != ".py" and any(word in path.name.lower() for word in _LICENCE_WORDS)


def _of_another_service(path: PurePosixPath) -> bool:
    if not path.is_relative_to("botocore/data") or len(path.parts) < 4:
        return False
    return path.parts[2] not in SERVICES or path.name.startswith("examples-")
