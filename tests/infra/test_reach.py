"""What a bundle carries of the project: everything that its functions can come to, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from infra.bundles import packages, reach
from infra.bundling import PLAIN, SEARCH, BundleError, bundle
from infra.functions import FUNCTIONS

ROOT = Path(__file__).resolve().parents[2]
SEARCHING = {
    "mcp",
    "date_search",
    "delete_vault",
    "indexer",
    "prepare",
    "provision",
    "search",
    "stats",
    "warmup",
}
FOLDERS = {path.parent.name for path in (ROOT / "functions").glob("*/handler.py")}
HEAVY = ("boto3", "numpy", "opensearchpy", "requests", "sqlite3", "Stemmer")


def tree(root: Path, **texts: str) -> Path:
    """Modules by their names, with ``__`` for the dots."""
    for name, text in texts.items():
        path = root.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        for folder in path.relative_to(root).parents:
            if folder != Path():
                (root / folder / "__init__.py").touch()
    return root


def reached(root: Path, *left_out: str) -> set[str]:
    return set(reach.modules(["functions.f.handler"], left_out, root))


def test_imports_are_followed_wherever_they_stand(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        functions__f__handler="import shared.a\ndef late():\n    from shared.b import it\n    from shared import c\n",
        shared__a="import os, numpy",
        shared__b="class Late:\n    from shared.deep.d import thing\n",
        shared__c="",
        shared__deep__d="",
        shared__unused="",
        functions__g__handler="",
    )
    assert reached(root) == {
        "functions",
        "functions.f",
        "functions.f.handler",
        "shared",
        "shared.a",
        "shared.b",
        "shared.c",
        "shared.deep",
        "shared.deep.d",
    }


def test_type_checkers_alone_need_nothing(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        functions__f__handler="from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import shared.types\nelse:\n    import shared.instead\n"
        "if not TYPE_CHECKING:\n    import shared.always\n",
        shared__types="",
        shared__instead="",
        shared__always="",
    )
    assert {"shared.instead", "shared.always"} < reached(root)
    assert "shared.types" not in reached(root)


def test_what_only_a_module_left_out_needs_is_left_out_too(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        functions__f__handler="import shared.big.part, shared.bigger",
        shared__big__part="import shared.below",
        shared__below="",
        shared__bigger="",
    )
    found = reached(root, "shared.big")
    assert "shared.bigger" in found
    assert found.isdisjoint({"shared.big", "shared.big.part", "shared.below"})


def test_every_function_is_in_one_bundle() -> None:
    assert set(reach.handlers(SEARCH)) == SEARCHING
    assert set(reach.handlers(PLAIN)) == FOLDERS - SEARCHING
    assert {function.handler for function in FUNCTIONS.values()} == {
        f"functions.{name}.handler.handler" for name in FOLDERS
    }


@pytest.mark.parametrize("kind", [PLAIN, SEARCH])
def test_a_bundle_has_its_own_functions_alone(kind: str) -> None:
    found = reach.sources(kind, ROOT)
    own = SEARCHING if kind == SEARCH else FOLDERS - SEARCHING
    assert {name.split("/")[1] for name in found if name.startswith("functions/") and name.count("/") == 2} == own
    assert ("functions/openapi/openapi.json" in found) == (kind == PLAIN)
    assert ("functions/mcp/tools.json" in found) == (kind == SEARCH)
    assert {name.split("/")[0] for name in found} == {"functions", "shared"}
    assert any(name.startswith("shared/retrieval/") for name in found) == (kind == SEARCH)
    assert found.keys() >= {"shared/bootstrap/aws.py", "shared/adapters/dynamodb/restoring.py", "shared/settings.py"}


def test_a_function_without_a_handler_is_missed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="checkout"):
        reach.sources(PLAIN, tree(tmp_path, functions__f__handler=""))


@pytest.mark.parametrize(("kind", "architecture"), [("both", "arm64"), (PLAIN, "riscv")])
def test_unknown_bundles_are_refused(kind: str, architecture: str, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="use plain or search, and one of arm64, x86_64, native"):
        bundle(kind, "3.13", architecture, tmp_path)


def test_a_missing_tool_and_its_complaints_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uv.lock").touch()
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(BundleError, match="run `make install`"):
        packages.installed(PLAIN, "3.13", "arm64", tmp_path / "cache", tmp_path)
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho no wheel for this platform >&2\nexit 1\n", "utf-8")
    uv.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda name: str(uv))
    with pytest.raises(BundleError, match="no wheel for this platform"):
        packages.installed(PLAIN, "3.13", "arm64", tmp_path / "cache", tmp_path)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "importers"),
    [
        # The one when another back end is chosen, the other when a packaged model is.
        (SEARCH, {"shared.bootstrap", "shared.bootstrap.models"}),
        # Where models are chosen, where the index is opened, and where indexes are made.
        (
            PLAIN,
            {"shared.bootstrap", "shared.bootstrap.models", "shared.bootstrap.aws", "shared.bootstrap.provisioning"},
        ),
    ],
)
def test_few_places_could_import_what_is_left_out(kind: str, importers: set[str]) -> None:
    left_out = reach.LEFT_OUT[kind]
    starts = [f"functions.{name}.handler" for name in reach.handlers(kind)]
    edges = {
        (module, name)
        for module in reach.modules(starts, left_out, ROOT)
        for name in reach.imported(module, ROOT)
        if reach.within(name, left_out)
    }
    assert {module for module, _ in edges} == importers
    # None of them is on the list without need.
    assert {left for left in left_out if any(reach.within(name, (left,)) for _, name in edges)} >= {
        "shared.adapters.local_embedder",
        "shared.bootstrap.embedded",
    }


@pytest.mark.slow
def test_functions_that_do_not_search_never_come_to_what_is_left_out() -> None:
    command = [sys.executable, "-m", "tests.infra.plain_walk", *reach.LEFT_OUT[PLAIN], *HEAVY]
    region = {"AWS_DEFAULT_REGION": "eu-central-1"}
    ran = subprocess.run(command, cwd=ROOT, env=region, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    answers = json.loads(ran.stdout.splitlines()[-1])
    # What no route takes is answered without the back end.
    assert set(answers) == FOLDERS - SEARCHING - {"unrouted"}
    assert {name: status for name, status in answers.items() if status not in (200, 201, 202)} == {}
