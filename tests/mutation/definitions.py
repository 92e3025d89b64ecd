"""Mutants of what mutmut leaves alone: module and class level code, decorators, and functions below a decorator.

``python -m tests.mutation.definitions`` copies the project into a temporary folder, changes one node of
``shared/domain`` at a time there, runs the examples of ``tests/unit/domain`` on it and prints the survivors. Every run
makes the same mutants in the same order. The exit code is 0 whatever survives: `docs/mutation.md` judges the survivors.
"""

import ast
import importlib
import os
import re
import resource
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOMAIN = "shared/domain"
CPU_SECONDS = 120
# The examples alone: they are quick, and a constant that only a generated case pins is pinned by luck.
PLUGINS = ["-p", "pytest_socket", "-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider"]
PYTEST = ["-q", "-x", *PLUGINS, "-m", "not hypothesis", "tests/unit/domain"]
OUTCOMES = {0: "survived", 1: "killed", 2: "killed"}

OPERATORS: dict[type[ast.operator] | type[ast.cmpop], ast.operator | ast.cmpop] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.FloorDiv(),
    ast.FloorDiv: ast.Mult(),
    ast.Pow: ast.Mult(),
    ast.BitOr: ast.BitAnd(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
}


@dataclass(frozen=True)
class Place:
    """Where a node hangs: a field of its parent, at `index` when that field is a list."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


@dataclass(frozen=True)
class Mutant:
    """`module` is the text of the whole changed module; `line`, `old` and `new` show the change."""

    path: Path
    line: int
    old: str
    new: str
    module: str


def places(node: ast.AST) -> Iterator[Place]:
    """Every node below `node` outside undecorated functions, docstrings and annotations, top down."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns"}:
            continue
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            plain_function = isinstance(child, ast.FunctionDef) and not child.decorator_list
            docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not plain_function and not docstring:
                yield Place(node, field, index, child)
                yield from places(child)


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Constant):
        yield from (ast.Constant(value) for value in other_values(node.value))
    elif isinstance(node, ast.operator | ast.cmpop) and type(node) in OPERATORS:
        yield OPERATORS[type(node)]
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        for number in range(len(node.elts)):
            smaller = deepcopy(node)
            del smaller.elts[number]
            yield smaller


def other_values(value: object) -> Iterator[str | int | bool]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        yield value - 1
    elif value is None:
        yield 0
    elif isinstance(value, str):
        yield f"XX{value}XX"
        for number in re.finditer(r"\d+", value):
            yield f"{value[: number.start()]}{int(number[0]) + 1}{value[number.end() :]}"


def mutants() -> Iterator[Mutant]:
    for path in sorted((ROOT / DOMAIN).glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for place in list(places(tree)):
            shown = place.node if hasattr(place.node, "lineno") else place.parent
            old = ast.unparse(shown)
            for node in list(replacements(place.node)):
                place.put(node)
                new = ast.unparse(node if shown is place.node else shown)
                module = ast.unparse(ast.fix_missing_locations(tree))
                place.put(place.node)
                yield Mutant(path.relative_to(ROOT), getattr(shown, "lineno", 0), old, new, module)


def outcome(folder: Path, mutant: Mutant) -> str:
    """Run the tests on the mutant in a fork of this process, which has the test tools imported but no domain."""
    target = folder / mutant.path
    original = target.read_text("utf-8")
    target.write_text(mutant.module, "utf-8")
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.chdir(folder)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        sys.path.insert(0, str(folder))
        os._exit(pytest.main(PYTEST))
    _, status = os.waitpid(child, 0)
    target.write_text(original, "utf-8")
    return OUTCOMES.get(os.waitstatus_to_exitcode(status), "timed out or crashed")


def main() -> None:
    sys.dont_write_bytecode = True
    importlib.import_module("hypothesis.strategies")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("shared", "tests"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        unchanged = Mutant(Path(DOMAIN, "__init__.py"), 0, "", "", "")
        if outcome(folder, unchanged) != "survived":
            raise SystemExit("the tests fail without any change")
        for mutant in mutants():
            result = outcome(folder, mutant)
            counts[result] += 1
            if result != "killed":
                print(f"{mutant.path}:{mutant.line}: {result}: {mutant.old} -> {mutant.new}", flush=True)
    print(f"{counts.total()} mutants: {dict(counts)}")


if __name__ == "__main__":
    main()
