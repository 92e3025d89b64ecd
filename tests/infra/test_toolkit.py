"""The CDK command line as this repository runs it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra import toolkit
from infra.toolkit import ROOT

ASKING = """#!/bin/sh
read answer
echo "answered: $answer; home: $HOME; region: $AWS_REGION; jsii: $JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"
"""
RUN = """
import sys
from infra import toolkit
toolkit.COMMAND = toolkit.ROOT / "cdk.json"
sys.exit(toolkit.run(["deploy"]{}))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where `node` is a program that asks, as CDK does before it widens permissions."""
    node = tmp_path / "node"
    node.write_text(ASKING)
    node.chmod(0o755)
    return {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "HOME": "/home/me", "AWS_REGION": "eu-west-1"}


def test_whoever_runs_it_at_a_terminal_can_answer_its_questions(environment: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"yes\n")
    ran = subprocess.run(
        [sys.executable, "-c", RUN.format("")],
        cwd=ROOT, env=environment, stdin=theirs, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    os.close(theirs)
    os.close(ours)
    assert ran.stdout == "answered: yes; home: /home/me; region: eu-west-1; jsii: 20\n"


def test_an_isolated_run_sees_no_terminal_and_no_credentials(environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", RUN.format(", {'HOME': '/other'}")],
        cwd=ROOT, env=environment, input="yes\n", capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert ran.stdout == "answered: ; home: /other; region: ; jsii: 20\n"


def test_what_is_missing_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "COMMAND", tmp_path / "cdk")
    with pytest.raises(toolkit.ToolkitMissing, match="run `make install`"):
        toolkit.command(["deploy"])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(toolkit.ToolkitMissing, match=r"install Node.js 20 or newer"):
        toolkit.command(["deploy"])


def npm_files(folder: str) -> tuple[dict[str, str], dict[str, Any]]:
    """What a folder asks npm for, and what its lock file holds besides the folder itself."""
    wanted = json.loads((ROOT / folder / "package.json").read_text("utf-8"))["dependencies"]
    locked = json.loads((ROOT / folder / "package-lock.json").read_text("utf-8"))["packages"]
    assert locked.pop("")["dependencies"] == wanted
    return wanted, locked


@pytest.mark.parametrize("folder", ["infra/toolkit", "tests/e2e/inspector"])
def test_what_npm_installs_is_pinned_with_its_sum(folder: str) -> None:
    wanted, locked = npm_files(folder)
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    for entry in locked.values():
        assert entry["integrity"].startswith("sha512-")
        # Where it comes from is npm's own setting.
        assert "resolved" not in entry


def test_the_command_line_brings_nothing_else() -> None:
    wanted, locked = npm_files("infra/toolkit")
    assert set(locked) == {f"node_modules/{name}" for name in wanted}
