"""The rules of the house that no linter knows: sizes, names, words, clocks, import contracts, the lock file."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("functions", "infra", "shared", "tests")
PACKAGES = ("functions", "infra", "shared")

MODULE_LINES = 350
TEST_LINES = 500
HANDLER_LINES = 30

VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "misc"}

# In pieces, so that this file passes its own checks.
MACHINE_PATHS = ["/" + name + "/" for name in ("farm", "root", "tmp", "work")]
FOREIGN_WORDS = ["before-" + "stop", ".lib" + "rary", "co-authored" + "-by", "generated " + "with"]
OPEN_ENDS = re.compile(
    r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b"
    r"|\bmark\.(skip|skipif|xfail)\b|\bpytest\.(skip|xfail)\(|\bunittest\.skip"
)

# Pure code and use cases get the time and new ids from ports.
CLOCK_CALLS = {"now", "utcnow", "today", "time", "time_ns", "monotonic", "perf_counter", "uuid1", "uuid4", "uuid7"}
CLOCKLESS = ("domain", "retrieval", "usecases")


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def text_files(root: Path = ROOT) -> Iterator[Path]:
    """Everything that travels with the project and is text: what .gitignore names was left here by some tool."""
    left_out = {"uv.lock", "LICENSE", ".git"}
    ignored = [
        line.strip("/") for line in (root / ".gitignore").read_text("utf-8").splitlines() if line and line[0] != "#"
    ]
    folders = [root / name for name in (".ci", "docs", *CODE_FOLDERS)]
    for path in sorted((*root.iterdir(), *(path for folder in folders for path in folder.rglob("*")))):
        parts = path.relative_to(root).parts
        if (
            path.is_file()
            and parts[0] not in left_out
            and not any(fnmatch(part, pattern) for part in parts for pattern in ignored)
            and b"\x00" not in path.read_bytes()
        ):
            yield path


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def line_count(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).parent / "lint-imports"
    env = {**os.environ, "PYTHONPATH": str(folder), "NO_COLOR": "1"}
    return subprocess.run(
        [str(command), "--no-logo", "--no-cache"], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def test_modules_stay_short() -> None:
    limits = {"tests": TEST_LINES}
    too_long = [
        f"{shown(path)}: {line_count(path)} lines"
        for folder in CODE_FOLDERS
        for path in python_files(folder)
        if line_count(path) > limits.get(folder, MODULE_LINES)
    ]
    assert too_long == []


def test_handlers_only_connect() -> None:
    handlers = sorted((ROOT / "functions").glob("*/handler.py"))
    assert [f"{shown(path)}: {line_count(path)} lines" for path in handlers if line_count(path) > HANDLER_LINES] == []


def test_names_say_what_is_inside() -> None:
    vague = [
        shown(path)
        for path in python_files(*CODE_FOLDERS)
        if VAGUE_NAMES & {part.lower() for part in (*path.relative_to(ROOT).parts[:-1], path.stem)}
    ]
    assert vague == []


def test_no_machine_path_or_foreign_word() -> None:
    found = [
        f"{shown(path)}:{number}: {word}"
        for path in text_files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        for word in (*MACHINE_PATHS, *FOREIGN_WORDS)
        if word in line.lower()
    ]
    assert found == []


def test_what_tools_leave_behind_is_not_read(tmp_path: Path) -> None:
    shutil.copy(ROOT / ".gitignore", tmp_path)
    kept = [tmp_path / name for name in ("README.md", "docs/page.md", "shared/rules.py")]
    left_over = [
        tmp_path / name for name in (".coverage", ".coverage.host.1", "coverage.json", "shared/__pycache__/a.py")
    ]
    for path in (*kept, *left_over, tmp_path / "docs" / "picture.png"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x89\x00" if path.suffix == ".png" or path in left_over[:2] else b"text")
    assert set(text_files(tmp_path)) == {tmp_path / ".gitignore", *kept}


def test_nothing_is_left_open_or_switched_off() -> None:
    found = [
        f"{shown(path)}:{number}: {line.strip()}"
        for path in python_files(*CODE_FOLDERS)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if OPEN_ENDS.search(line)
    ]
    assert found == []


def test_rules_and_use_cases_ask_ports_for_time_and_ids() -> None:
    found = [
        f"{shown(path)}:{node.lineno}: {node.func.attr}()"
        for folder in CLOCKLESS
        for path in python_files(f"shared/{folder}")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCK_CALLS
        and isinstance(node.func.value, ast.Name | ast.Attribute)
        and ast.unparse(node.func.value).split(".")[-1] in {"datetime", "date", "time", "uuid"}
    ]
    assert found == []


def test_import_contracts_are_kept() -> None:
    outcome = lint_imports(ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_import_contracts_notice_a_breach(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "shared" / "domain" / "breach.py").write_text("import socket\n\nimport shared.ports\n")
    (tmp_path / "shared" / "usecases" / "breach.py").write_text("import shared.adapters\n")

    outcome = lint_imports(tmp_path)

    broken = {line.removesuffix(" BROKEN") for line in outcome.stdout.splitlines() if line.endswith(" BROKEN")}
    assert outcome.returncode == 1
    assert broken >= {
        "Imports point inwards",
        "Only bootstrap picks adapters",
        "The domain is standard library only: no clock, no environment, no I/O",
    }


def declared_requirements() -> dict[str, SpecifierSet]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    lines = [
        *project["project"]["dependencies"],
        *(line for extra in project["project"]["optional-dependencies"].values() for line in extra),
        *(line for group in project["dependency-groups"].values() for line in group),
    ]
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in requirements}


def test_lock_file_agrees_with_the_project() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))
    (project,) = [package for package in lock["package"] if package["name"] == "strata-vault"]
    metadata = project["metadata"]
    rows = [*metadata["requires-dist"], *(row for group in metadata["requires-dev"].values() for row in group)]
    assert {row["name"]: SpecifierSet(row.get("specifier", "")) for row in rows} == declared_requirements()


def test_lock_file_names_only_the_public_index() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", (ROOT / "uv.lock").read_text("utf-8")))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}


def test_contributing_explains_every_dependency() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    explained = {
        canonicalize_name(name)
        for row in re.findall(r"^\| `.*?\|", page, re.M)
        for name in re.findall(r"`([^`]+)`", row)
    }
    assert set(declared_requirements()) - explained == set()


def test_ci_script_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
