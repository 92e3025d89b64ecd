"""The operations guide names only what there is: commands, options, settings, files, addresses, alarms."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from botocore import xform_name
from botocore.session import Session

from infra import toolkit
from infra.env import Endpoint, Environment, Search, read
from infra.functions import FUNCTIONS
from infra.index.commands import COMMANDS
from shared.api.routes import ROUTES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GUIDE = (DOCS / "operations.md").read_text("utf-8")
OF_THE_COMMAND_LINE = {"--query", "--cli-binary-format"}
"""Options of the AWS command line that no operation of AWS knows."""
NAMES = ("dev", "prod", "rescue")


def blocks() -> list[str]:
    return re.findall(r"^ *```sh\n(.*?)^ *```$", GUIDE, re.MULTILINE | re.DOTALL)


def spans() -> list[str]:
    prose = re.sub(r"^ *```.*?^ *```$", "", GUIDE, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`]+)`", prose)


def commands(first: str) -> list[list[str]]:
    """What is run, word by word, from the blocks and from the text, from the word `first` on."""
    lines = [line for block in blocks() for line in block.replace("\\\n", " ").splitlines()] + spans()
    found = []
    for line in lines:
        words = shlex.split(line) if line.count('"') % 2 == 0 and line.count("'") % 2 == 0 else line.split()
        if first in words[:8]:
            found.append(words[words.index(first) + 1 :])
    assert found, first
    return found


def options(words: list[str]) -> list[str]:
    return [word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)]


def modules() -> Iterator[tuple[str, list[str]]]:
    for words in commands("-m"):
        yield words[0], words[1:]


def anchors(path: Path) -> set[str]:
    """Of the headings, as the sites that show Markdown make them."""
    found = set()
    for title in re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    return found


def test_every_alarm_is_linked() -> None:
    alarms = set(re.findall(r"^## alarm (\S+)$", (DOCS / "alarms.md").read_text("utf-8"), re.MULTILINE))
    assert len(alarms) >= 20
    assert set(re.findall(r"\[([\w-]+)\]\(alarms\.md#alarm-\1\)", GUIDE)) == alarms


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", GUIDE)
    assert len(links) > 40
    for link in links:
        file, _, anchor = link.partition("#")
        path = DOCS / file if file else DOCS / "operations.md"
        assert path.is_file(), link
        assert not anchor or anchor in anchors(path), link


def test_every_section_is_in_the_contents() -> None:
    titles = re.findall(r"^## (.*)$", GUIDE, re.MULTILINE)
    assert re.findall(r"\[([^\]]+)\]\(#", GUIDE.partition("\n## ")[0]) == titles


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    used = {words[0] for words in commands("make")}
    assert {"deploy", "destroy", "install"} <= used
    assert used <= targets


def test_modules_and_their_options_exist() -> None:
    seen = set()
    for module, words in modules():
        assert module.startswith("infra."), module
        spec = find_spec(module)
        assert spec is not None, module
        assert spec.origin is not None
        file = Path(spec.origin)
        if file.name == "__init__.py":
            file = file.with_name("__main__.py")
        source = file.read_text("utf-8")
        seen.add(module)
        if module == "infra.toolkit":
            continue
        for option in options(words):
            assert f'"{option}"' in source, (module, option)
        if module == "infra.index" and words:
            assert words[0] in COMMANDS, words
    assert seen == {"infra.admin_key", "infra.costs", "infra.deploy", "infra.index", "infra.toolkit"}


@pytest.mark.slow
def test_the_cdk_command_line_knows_its_options() -> None:
    for words in [words for module, words in modules() if module == "infra.toolkit"]:
        shown = subprocess.run(
            toolkit.command([words[0], "--help"]), check=True, capture_output=True, text=True, timeout=120
        ).stdout
        for option in options(words):
            assert f"{option} " in shown, words
        assert "-c" in words


def test_operations_of_aws_exist_with_their_parameters() -> None:
    session = Session()
    for words in [*commands("aws")]:
        if len(words) < 2:
            continue
        service, operation, *rest = words
        if operation == "wait":
            assert rest[0].replace("-", "") in {name.lower() for name in _waiters(session, service)}, words
            continue
        model = session.get_service_model(service)
        known = {xform_name(name, "-"): name for name in model.operation_names}
        assert operation in known, words
        members = model.operation_model(known[operation]).input_shape.members
        parameters = {f"--{xform_name(name, '-')}": shape for name, shape in members.items()}
        for place, word in enumerate(rest):
            if not word.startswith("--") or word in OF_THE_COMMAND_LINE:
                continue
            plain = word if word in parameters else word.replace("--no-", "--", 1)
            assert plain in parameters, words
            if plain != word:
                assert parameters[plain].type_name == "boolean", words
            value = rest[place + 1] if place + 1 < len(rest) else ""
            if re.match(r"[A-Za-z]+=", value):
                keys = {part.partition("=")[0] for part in value.split(",")}
                assert keys <= parameters[plain].members.keys(), words


def _waiters(session: Session, service: str) -> list[str]:
    loaded: dict[str, Any] = session.get_component("data_loader").load_service_model(service, "waiters-2")
    return list(loaded["waiters"])


def test_settings_exist_and_all_are_named() -> None:
    settings = set(Environment.model_fields)
    parts = set(Search.model_fields) | set(Endpoint.model_fields)
    answers = "".join(path.read_text("utf-8") for path in (ROOT / "shared" / "usecases").glob("*.py"))
    elsewhere = answers + (ROOT / "README.md").read_text("utf-8")
    made_here = set(re.findall(r"^(\w+)\(\) \($", GUIDE, re.MULTILINE)) | {"application", "environment"}
    for span in spans():
        if re.fullmatch(r"[a-z][a-z_]*", span) and span not in settings | parts | made_here | {*NAMES, *COMMANDS}:
            assert re.search(rf"\b{span}\b", elsewhere), span
    assert settings - {"name"} <= set(spans()) | {"table_stream"}
    for name, value in re.findall(r'`"(\w+)": "([^"]*)"', GUIDE):
        assert name in settings | {"vault"}, (name, value)


def test_the_settings_of_a_deployment_are_taken_from_its_stacks() -> None:
    """Not spelled out by hand, where one that is forgotten would be another model or another table."""
    assert re.findall(r"\bSTRATA_[A-Z_]+=", GUIDE) == []


def test_files_exist() -> None:
    for span in spans():
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)*\.(py|json|md|lock|toml)", span):
            assert (ROOT / span).is_file(), span


def test_paths_of_the_api_exist() -> None:
    paths = {route.path for route in ROUTES}
    named = set(re.findall(r"(?:ADDRESS|\$address|`|[A-Z] )(/(?:v1|health)[\w/-]*)", GUIDE))
    assert len(named) > 6
    for path in named:
        assert path.replace("KEY_ID", "{key_id}") in paths, path


def test_names_of_what_is_deployed_are_those_of_the_stacks() -> None:
    described = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]["environments"]
    assert {"dev", "prod"} <= described.keys()
    known = {"-restored", "-alarms"}
    environment = read("dev", described["dev"])
    known |= {name.removeprefix("strata-dev") for name in (environment.table_name, environment.domain_name)}
    known |= {name.removeprefix("strata-dev") for name in (environment.data_stack, environment.api_stack)}
    for name, rest in re.findall(r"\bstrata-([a-z]+)((?:-[a-z]+)*)", GUIDE):
        assert name in NAMES, name
        assert rest in known, rest
    for name, function in re.findall(r"/strata/([a-z]+)/(\w+)", GUIDE):
        assert name in NAMES
        assert function in FUNCTIONS
