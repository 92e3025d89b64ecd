"""What happens where a node cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.local import opensearch_home
from infra.local.opensearch_home import CannotBuild, home, missing_tools
from tests.opensearch.node import leave_out


def test_without_java_or_maven_nothing_is_built_and_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opensearch_home, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_tools() == ["java", "mvn"]
    with pytest.raises(CannotBuild, match="java and mvn not found; install"):
        home()
    assert not (tmp_path / "cache").exists()


def test_maven_is_not_needed_once_the_folder_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opensearch_home, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / f"opensearch-{opensearch_home.VERSION}-knn-{opensearch_home.KNN_VERSION}").mkdir()
    assert missing_tools() == ["java"]


def test_what_maven_says_is_shown_and_nothing_half_made_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opensearch_home, "CACHE", tmp_path / "cache")
    for name, script in (("java", "exit 0"), ("mvn", "echo no such artifact; exit 1")):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotBuild, match="no such artifact"):
        home()
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_a_missing_node_is_a_skip_and_on_a_build_machine_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="java not found; install"):
        leave_out(["java"])
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="java not found; install"):
        leave_out(["java"])
