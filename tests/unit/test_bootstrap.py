"""A back end is put together without what it does not use: cold starts of functions pay for every module."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shared.adapters.dynamodb.layout import SCHEMA
from shared.bootstrap.aws import Aws
from shared.bootstrap.session import aws_session
from shared.domain.errors import Unavailable
from shared.ports.directory import KeyRecord
from shared.settings import load
from tests.contract.rows import uuid7
from tests.dynamodb.table import MemoryTable

ROOT = Path(__file__).resolve().parents[2]
ON_AWS = {
    "STRATA_BACKEND": "aws",
    "STRATA_TABLE": "memories",
    "STRATA_SEARCH_URL": "http://127.0.0.1:1",
    "AWS_DEFAULT_REGION": "eu-central-1",
}
HEAVY = {"numpy", "opensearchpy", "onnxruntime", "tokenizers", "Stemmer", "sqlite3", "boto3", "uvicorn"}


def loaded(folder: str, environment: dict[str, str]) -> set[str]:
    """Top-level modules in memory once the function has its services."""
    program = (
        f"import functions.{folder}.handler, json, sys; from shared.bootstrap import services; services();"
        " print(json.dumps([name for name in sys.modules if '.' not in name]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return set(json.loads(ran.stdout))


@pytest.mark.parametrize("folder", ["ingest", "checkout", "commit", "delete_ids", "keys_list", "indexer", "search"])
def test_no_function_on_aws_loads_search_or_models_before_it_needs_them(folder: str) -> None:
    assert loaded(folder, ON_AWS) & HEAVY == set()


def test_a_model_behind_an_endpoint_is_named_without_its_client() -> None:
    endpoint = {
        "STRATA_EMBEDDER": "endpoint",
        "STRATA_EMBEDDINGS_URL": "https://host/v1",
        "STRATA_EMBEDDINGS_MODEL": "bge-small",
        "STRATA_EMBEDDINGS_DIMENSION": "384",
    }
    assert loaded("ingest", ON_AWS | endpoint) & HEAVY == set()


def test_the_embedded_back_end_loads_nothing_of_aws(tmp_path: Path) -> None:
    found = loaded("ingest", {"STRATA_DATA": str(tmp_path / "data")})
    assert "sqlite3" in found
    assert found & {"boto3", "botocore", "opensearchpy"} == set()


def test_a_vault_of_a_model_that_is_not_offered_says_what_to_set() -> None:
    table = MemoryTable()
    table.create_table(TableName="memories", **SCHEMA)
    backend = Aws(load(ON_AWS), connect=lambda service: table)
    key = KeyRecord("key", "0" * 64, uuid7(1), "", frozenset(), 0)
    vault = backend.directory.vault(backend.directory.add(key).vault_id).ref
    assert backend.model(vault) == ("titan-embed-text-v2-1024", 1024)
    backend.directory.bind_model(vault, "minilm-l6-v2")
    with pytest.raises(Unavailable) as refused:
        backend.model(vault)
    assert refused.value.code == "embedding_unavailable"
    assert "STRATA_EMBEDDER=minilm-l6-v2" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({"AWS_REGION": "eu-west-1"}, "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-1"),
        ({}, None),
    ],
)
def test_the_region_is_known_by_either_variable(
    variables: dict[str, str], region: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert aws_session().get_config_variable("region") == region
