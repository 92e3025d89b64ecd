"""Bundles: whole, small, the same every time, and usable where nothing else is installed."""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path
from types import CodeType

import pytest

from infra.bundles import packages
from infra.bundling import KINDS, PLAIN, SEARCH, bundle, running_python
from tests.infra.cold import ON_AWS, alone
from tests.infra.test_reach import FOLDERS, SEARCHING

pytestmark = [pytest.mark.slow, pytest.mark.loopback]

ROOT = Path(__file__).resolve().parents[2]
PLAIN_MB = 8
# Lambda takes 50 MB in one upload and unpacks up to 250 MB.
SEARCH_MB, UNPACKED_MB = 50, 250
# ELF's numbers of machines.
AARCH64, X86_64 = 183, 62
CLOSED = "http://127.0.0.1:1"

BEGIN = "import json, sys\nsys.path.insert(0, sys.argv[1])\n"
ANSWERS = (
    BEGIN
    + """
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

names = sorted(path.parent.name for path in Path("functions").glob("*/handler.py"))
handlers = {name: import_module(f"functions.{name}.handler").handler for name in names}
event = {
    "version": "2.0",
    "requestContext": {"requestId": "r", "http": {"method": "POST", "path": "/nowhere"}},
    "headers": {"authorization": "Bearer mk_somebody"},
    "body": "{}",
    "Records": [],
}

def answer(name):
    # It reports to CloudFormation, which is not there.
    return name == "provision" or handlers[name](event, None).get("statusCode", "indexed")

with ThreadPoolExecutor(len(names)) as pool:
    print(json.dumps(dict(zip(names, pool.map(answer, names)))))
"""
)
EVERYTHING = (
    BEGIN
    + """
from importlib import import_module
from pathlib import Path

for path in sorted(Path("shared").rglob("*.py")):
    import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
print(json.dumps(sorted(sys.modules)))
"""
)
CLIENTS = (
    BEGIN
    + """
from botocore.session import get_session

clients = [get_session().create_client(name) for name in USED]
print(json.dumps([client.meta.service_model.service_name for client in clients]))
"""
)
SEARCHES = (
    BEGIN
    + """
from shared.bootstrap.aws import Aws
from shared.domain.errors import Unavailable
from shared.domain.memory import VaultRef
from shared.settings import BEDROCK_MODELS, load

aws = Aws(load())
told = []
index = aws.index.made()
models = [aws.services.embedders[name] for name in aws.services.embedders]
for ask in (
    # Signed for a domain, and asked of a model of each kind: nobody listens, so all of it is tried but the answer.
    lambda: aws.transport().request("GET", "/"),
    lambda: aws.services.embedders[BEDROCK_MODELS[0]].embed_query("text"),
    lambda: aws.services.embedders[aws.services.policy.default_model].embed_query("text"),
):
    try:
        ask()
    except Unavailable as error:
        told.append(error.code)

import numpy
import Stemmer

print(json.dumps({
    "told": told,
    "models": len(models),
    "stem": Stemmer.Stemmer("english").stemWord("consolidations"),
    "product": float(numpy.array([3.0, 4.0]) @ numpy.array([3.0, 4.0])),
}))
"""
)

Unpacked = Callable[[str], Path]


def names(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_every_handler_answers_where_nothing_else_is_installed(kind: str, unpacked: Unpacked) -> None:
    environment = {**ON_AWS, "STRATA_AWS_ENDPOINT": CLOSED}
    answers = json.loads(alone(unpacked(kind), ANSWERS, environment).splitlines()[-1])
    if kind == SEARCH:
        expected: dict[str, object] = dict.fromkeys(SEARCHING, 503) | {"indexer": "indexed", "provision": True}
    else:
        expected = dict.fromkeys(FOLDERS - SEARCHING, 503)
        expected |= {"home": 200, "health": 200, "openapi": 200, "protected_resource": 200, "unrouted": 404}
    assert answers == expected


@pytest.mark.parametrize("kind", KINDS)
def test_every_module_finds_what_it_imports(kind: str, unpacked: Unpacked) -> None:
    modules = set(json.loads(alone(unpacked(kind), EVERYTHING)))
    assert modules.isdisjoint({"boto3", "sqlite3", "onnxruntime", "tokenizers", "uvicorn"})
    assert ({"numpy", "opensearchpy", "Stemmer", "requests"} <= modules) == (kind == SEARCH)


def test_a_searching_function_can_ask_the_store_and_the_models(unpacked: Unpacked) -> None:
    environment = ON_AWS | {
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": CLOSED,
        "STRATA_EMBEDDER": "endpoint",
        "STRATA_EMBEDDINGS_URL": CLOSED,
        "STRATA_EMBEDDINGS_MODEL": "bge-small",
        "STRATA_EMBEDDINGS_DIMENSION": "384",
    }
    told = json.loads(alone(unpacked(SEARCH), SEARCHES, environment).splitlines()[-1])
    assert told["told"] == ["search_unavailable", "embedding_unavailable", "embedding_unavailable"]
    assert told["models"] == 9
    # From Snowball's own sample vocabulary.
    assert told["stem"] == "consolid"
    assert told["product"] == 25.0


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_services_that_functions_use_are_described(kind: str, unpacked: Unpacked) -> None:
    used = ["bedrock-runtime", "dynamodb", "secretsmanager", "sqs"]
    program = CLIENTS.replace("USED", repr(used))
    assert json.loads(alone(unpacked(kind), program)) == used
    described = {path.name for path in (unpacked(kind) / "botocore" / "data").iterdir() if path.is_dir()}
    # Credentials of some environments come from there.
    assert described == {*used, "sts"}


@pytest.mark.parametrize(("kind", "python", "architecture"), [(PLAIN, None, "native"), (SEARCH, "3.13", "arm64")])
def test_the_same_input_makes_the_same_bytes(kind: str, python: str | None, architecture: str, tmp_path: Path) -> None:
    version = python or running_python()
    first = bundle(kind, version, architecture, tmp_path / "first")
    program = (
        "import sys; from pathlib import Path; from infra.bundling import bundle;"
        f" print(bundle({kind!r}, {version!r}, {architecture!r}, Path(sys.argv[1])))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "elsewhere" / "second")],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Pacific/Auckland"},
        capture_output=True,
        text=True,
        check=True,
    )
    second = Path(ran.stdout.strip())
    assert second.parent == tmp_path / "elsewhere" / "second"
    assert (second.name, digest(second)) == (first.name, digest(first))
    assert {path.name for path in first.parent.iterdir()} >= {first.name}
    assert [path for path in first.parent.iterdir() if path.name.startswith(("installing-", "writing-"))] == []


def test_a_bundle_is_made_once(tmp_path: Path) -> None:
    made = bundle(PLAIN, "3.13", "arm64", tmp_path)
    made.write_bytes(b"as it was")
    assert bundle(PLAIN, "3.13", "arm64", tmp_path) == made
    assert made.read_bytes() == b"as it was"


@pytest.mark.parametrize(("architecture", "machine"), [("arm64", AARCH64), ("x86_64", X86_64)])
def test_extensions_are_of_the_platform(architecture: str, machine: int) -> None:
    found = 0
    with zipfile.ZipFile(bundle(SEARCH, "3.13", architecture)) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if content[:4] != b"\x7fELF":
                assert not name.endswith(".so"), name
                continue
            found += 1
            assert int.from_bytes(content[18:20], "little") == machine, name
            assert re.search(r"\.cpython-313-|\.abi3\.so$|^[a-z_]+\.libs/", name) or "mypyc" in name, name
    assert found > 10


@pytest.mark.parametrize("architecture", ["native", "arm64"])
def test_sizes(architecture: str) -> None:
    version = "3.13" if architecture == "arm64" else running_python()
    for kind, limit in ((PLAIN, PLAIN_MB), (SEARCH, SEARCH_MB)):
        path = bundle(kind, version, architecture)
        with zipfile.ZipFile(path) as archive:
            unpacked_mb = sum(entry.file_size for entry in archive.infolist()) / 1e6
        packed_mb = path.stat().st_size / 1e6
        print(f"{kind}, Python {version}, {architecture}: {packed_mb:.1f} MB, unpacked {unpacked_mb:.1f} MB")
        assert packed_mb <= limit
        assert unpacked_mb <= UNPACKED_MB


@pytest.mark.parametrize("kind", KINDS)
def test_versions_and_licences_are_those_of_the_lock_file(kind: str) -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))
    locked = {(plain_name(package["name"]), package.get("version")) for package in lock["package"]}
    listed = names(bundle(kind, running_python(), "native"))
    licensed = {
        tuple(name.split("/")[1].rsplit("-", 1))
        for name in listed
        if name.startswith("licenses/") and re.search("licen", name.split("/", 2)[2], re.IGNORECASE)
    }
    known = {(plain_name(name), version) for name, version in licensed}
    assert known <= locked
    tops = {name.split("/")[0].split(".")[0] for name in listed} & packages_distributions().keys()
    carried = {plain_name(distribution) for top in tops for distribution in packages_distributions()[top]}
    assert carried - {name for name, _ in known} == set()
    assert ({"numpy", "pystemmer", "opensearch-py"} <= carried) == (kind == SEARCH)
    assert {"botocore", "pydantic-core", "aws-lambda-powertools"} <= carried


def plain_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_travels_without_need(kind: str) -> None:
    listed = names(bundle(kind, running_python(), "native"))
    assert listed == sorted(listed)
    parts = {part for name in listed for part in name.split("/")}
    assert parts.isdisjoint({"tests", "infra", "boto3", "s3transfer", "bin", "f2py", "event_handler"})
    assert {Path(name).suffix for name in listed if not name.startswith("licenses/")}.isdisjoint({".pyi", ".a", ".pxd"})
    assert not any(".dist-info/" in name for name in listed)


@pytest.mark.parametrize("kind", KINDS)
def test_modules_are_compiled_once_for_all(kind: str) -> None:
    with zipfile.ZipFile(bundle(kind, running_python(), "native")) as archive:
        listed = set(archive.namelist())
        sources = {name for name in listed if name.endswith(".py")}
        compiled = {name for name in listed if name.endswith(".pyc")}
        assert len(sources) == len(compiled)
        for name in compiled:
            content = archive.read(name)
            # Hash-based, and not to be checked against the source.
            assert int.from_bytes(content[4:8], "little") == 0b01, name
            code = marshal.loads(content[16:])
            assert isinstance(code, CodeType)
            assert code.co_filename in sources
        entries = {entry.filename: entry for entry in archive.infolist()}
    assert {entry.date_time for entry in entries.values()} == {(1980, 1, 1, 0, 0, 0)}
    assert {oct(entry.external_attr >> 16) for entry in entries.values()} == {"0o100644", "0o100755"}


def test_without_the_python_that_runs_it_a_bundle_is_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = bundle(PLAIN, running_python(), "native")
    monkeypatch.setattr(packages, "interpreter", lambda python, root: None)
    plain = bundle(PLAIN, running_python(), "native", tmp_path)
    assert plain.name != compiled.name
    assert set(names(plain)) == {name for name in names(compiled) if not name.endswith(".pyc")}


def test_any_python_of_this_machine_compiles(tmp_path: Path) -> None:
    uv = tmp_path / ".tools" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    for script, found in (("echo /usr/bin/python3.99", "/usr/bin/python3.99"), ("exit 2", None)):
        uv.write_text(f"#!/bin/sh\n[ \"$1 $2 $3\" = 'python find 3.99' ] && {script}\n", "utf-8")
        uv.chmod(0o755)
        assert packages.interpreter("3.99", tmp_path) == found
    assert packages.interpreter(running_python(), tmp_path) == sys.executable


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_tells_where_a_bundle_was_made(kind: str) -> None:
    machine = {str(ROOT), "/writing-", "/installing-", sys.prefix}
    with zipfile.ZipFile(bundle(kind, running_python(), "native")) as archive:
        told = [
            (name, place)
            for name in archive.namelist()
            for content in [archive.read(name)]
            for place in machine
            if place.encode() in content
        ]
    assert told == []
