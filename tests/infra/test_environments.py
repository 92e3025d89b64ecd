"""What ``cdk.json`` may say, and how a wrong value is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from infra import outputs
from infra.env import Environment, WrongEnvironment, chosen, read
from infra.outputs import CDK_JSON
from infra.outputs import environment as named
from infra.variables import variables
from shared.bootstrap import local_embedders
from shared.settings import load

ENVIRONMENTS: dict[str, Any] = json.loads(CDK_JSON.read_text("utf-8"))["context"]["environments"]
DEV = ENVIRONMENTS["dev"]


def refusal(described: object, name: str = "dev") -> str:
    with pytest.raises(WrongEnvironment) as refused:
        read(name, described)
    return str(refused.value)


def picked(**context: object) -> Environment:
    return chosen({"environments": ENVIRONMENTS, **context}.get)


@pytest.mark.parametrize("name", ["dev", "prod", "emulator"])
def test_the_repository_has_its_environments(name: str) -> None:
    assert picked(env=name).name == name
    assert picked(env=name) == named(name)


def test_an_environment_has_to_be_named() -> None:
    for nothing in (None, ""):
        with pytest.raises(WrongEnvironment, match=r"say which environment: -c env=NAME, one of dev, emulator, prod"):
            picked(env=nothing)


def test_a_missing_environment_is_named_with_those_that_exist() -> None:
    with pytest.raises(WrongEnvironment, match=r"no environment 'staging' in cdk.json; there are dev, emulator, prod"):
        picked(env="staging")
    with pytest.raises(WrongEnvironment, match=r"no environment 'staging'"):
        named("staging")


@pytest.mark.parametrize("nothing", [None, {}, [], 3])
def test_a_context_without_environments(nothing: object) -> None:
    with pytest.raises(WrongEnvironment, match="no `environments`"):
        picked(env="dev", environments=nothing)


def test_the_command_line_can_describe_environments() -> None:
    assert picked(env="dev", environments=json.dumps({"dev": DEV})) == picked(env="dev")
    with pytest.raises(WrongEnvironment, match=r"-c environments=\.\.\. is no JSON"):
        picked(env="dev", environments="{")


@pytest.mark.parametrize(
    ("changed", "place", "said"),
    [
        ({"runtime": "3.9"}, "environments.dev.runtime", "'3.9'"),
        ({"architecture": "mips"}, "environments.dev.architecture", "'arm64'"),
        ({"log_days": 8}, "environments.dev.log_days", "7, 14"),
        ({"rate": 0}, "environments.dev.rate", "greater than or equal to 1"),
        ({"rate": "many"}, "environments.dev.rate", "integer"),
        ({"snap_start": "maybe"}, "environments.dev.snap_start", "boolean"),
        ({"snap_start": True, "runtime": "3.11"}, "environments.dev", "snap_start needs runtime 3.12"),
        ({"alarm_address": "nobody"}, "environments.dev.alarm_address", "'nobody'"),
        ({"cors_origins": ["example.org"]}, "environments.dev.cors_origins.0", "'example.org'"),
        ({"embedder": "minilm-l6-v2"}, "environments.dev.embedder", "titan-embed-text-v2-1024"),
        ({"embedder": "endpoint"}, "environments.dev", "`endpoint` go together"),
        ({"account": "12"}, "environments.dev.account", "'12'"),
        ({"region": "Frankfurt"}, "environments.dev.region", "'Frankfurt'"),
        ({"colour": "red"}, "environments.dev.colour", "Extra inputs are not permitted"),
        ({"search": {**DEV["search"], "nodes": 0}}, "environments.dev.search.nodes", "greater than or equal to 1"),
        ({"search": {**DEV["search"], "nodes": 2}}, "environments.dev", "two nodes cannot elect a master"),
        ({"search": {**DEV["search"], "instance": "large"}}, "environments.dev.search.instance", "'large'"),
        ({"search": {**DEV["search"], "scheme": "ftp"}}, "environments.dev.search.scheme", "'https'"),
        ({"search": {**DEV["search"], "volume": 1}}, "environments.dev.search.volume", "10"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_place_and_what_is_allowed(
    changed: dict[str, Any], place: str, said: str
) -> None:
    message = refusal({**DEV, **changed})
    assert place in message
    assert said in message


def test_every_wrong_value_is_said_at_once() -> None:
    message = refusal({**DEV, "rate": 0, "burst": 0, "runtime": "2"})
    assert len([line for line in message.splitlines() if line.startswith("cdk.json: environments.dev.")]) == 3


@pytest.mark.parametrize("missing", ["runtime", "search", "embedder", "log_days"])
def test_what_has_no_default_must_be_there(missing: str) -> None:
    message = refusal({name: value for name, value in DEV.items() if name != missing})
    assert f"environments.dev.{missing}" in message
    assert "required" in message


@pytest.mark.parametrize("name", ["Dev", "9", "a" * 17, "", "a_b"])
def test_a_name_that_cannot_be_part_of_aws_names(name: str) -> None:
    assert "name" in refusal(DEV, name)


def test_an_emulator_runs_functions_with_this_python() -> None:
    emulator = picked(env="emulator")
    assert emulator.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert emulator.wheels == "native"
    assert picked(env="prod").wheels == "arm64"


def test_the_emulators_endpoint_is_described_as_its_model_is() -> None:
    described = picked(env="emulator").endpoint
    assert described is not None
    model = local_embedders()[described.model]
    assert (described.dimension, described.noise) == (model.dimension, model.noise)


@pytest.mark.parametrize("text", ["{bad", "[]", "{}", '{"context": {}}', '{"context": {"environments": "x"}}', None])
def test_a_file_that_cannot_be_read_is_said_to_be_that(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cdk.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(outputs, "CDK_JSON", path)
    with pytest.raises(WrongEnvironment):
        named("dev")


@pytest.mark.parametrize("name", ["dev", "prod", "emulator"])
def test_functions_can_read_what_they_are_told(name: str) -> None:
    settings = load(variables(picked(env=name), "strata-x", "https://search.example"))
    assert (settings.table, settings.search_url) == ("strata-x", "https://search.example")
    assert settings.embedder == picked(env=name).embedder
