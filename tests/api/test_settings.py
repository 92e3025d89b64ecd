"""Settings: every name and value is either understood or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.adapters.bedrock.models import MODELS
from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.bootstrap.models import Models, chosen_embedders
from shared.settings import (
    BEDROCK_MODELS,
    LOCAL_MODELS,
    Settings,
    SettingsError,
    client_key,
    load,
    state_folder,
    without_client_keys,
)


def test_nothing_set_means_the_local_defaults() -> None:
    assert load({"PATH": "/bin", "strata_port": "1"}) == Settings(
        host="127.0.0.1",
        port=8787,
        data=Path(".strata"),
        auto_provision_keys=True,
        lease_seconds=900,
        embedder="minilm-l6-v2",
        log_level="INFO",
        index_memory_mb=1024,
        backend="embedded",
        table=None,
        search_url=None,
        aws_endpoint=None,
        dead_letters=None,
    )


AWS = {"STRATA_BACKEND": "aws", "STRATA_TABLE": "memories", "STRATA_SEARCH_URL": "https://domain.example"}


def test_on_aws_the_defaults_are_those_of_a_deployment() -> None:
    chosen = load(AWS)
    assert (chosen.backend, chosen.table, chosen.search_url) == ("aws", "memories", "https://domain.example")
    assert chosen.auto_provision_keys is False
    assert chosen.embedder in BEDROCK_MODELS
    kept = load(AWS | {"STRATA_AUTO_PROVISION_KEYS": "1", "STRATA_EMBEDDER": "hashed-64"})
    assert (kept.auto_provision_keys, kept.embedder) == (True, "hashed-64")


@pytest.mark.parametrize("missing", ["STRATA_TABLE", "STRATA_SEARCH_URL"])
def test_what_the_back_end_needs_and_misses_is_named(missing: str) -> None:
    with pytest.raises(SettingsError, match=missing):
        load({name: value for name, value in AWS.items() if name != missing})


@pytest.mark.parametrize("missing", ["URL", "MODEL", "DIMENSION"])
def test_an_endpoint_is_described_whole(missing: str) -> None:
    given = {
        "STRATA_EMBEDDINGS_URL": "http://127.0.0.1:8080/v1",
        "STRATA_EMBEDDINGS_MODEL": "bge-small",
        "STRATA_EMBEDDINGS_DIMENSION": "384",
        "STRATA_EMBEDDINGS_KEY": "secret-token",
        "STRATA_EMBEDDINGS_NOISE": "0.25",
        "STRATA_EMBEDDINGS_SHORTEN": "1",
        "STRATA_BEDROCK_MODEL_ID": "eu.cohere.embed-v4:0",
    }
    chosen = load(given | {"STRATA_EMBEDDER": "endpoint"})
    assert (chosen.embeddings_url, chosen.embeddings_model) == ("http://127.0.0.1:8080/v1", "bge-small")
    assert (chosen.embeddings_dimension, chosen.embeddings_noise) == (384, 0.25)
    assert (chosen.embeddings_shorten, chosen.bedrock_model_id) == (True, "eu.cohere.embed-v4:0")
    del given[f"STRATA_EMBEDDINGS_{missing}"]
    with pytest.raises(SettingsError, match=missing):
        load(given | {"STRATA_EMBEDDER": "endpoint"})


def test_a_secret_is_not_repeated() -> None:
    with pytest.raises(SettingsError, match="STRATA_EMBEDDINGS_KEY") as refused:
        load({"STRATA_EMBEDDINGS_KEY": "open sesame"})
    assert "sesame" not in str(refused.value)


def test_a_server_accepts_the_keys_of_clients_and_uses_neither() -> None:
    assert load({"STRATA_KEY": "mk_demo", "STRATA_MODEL_KEY": "no key at all"}) == Settings()


def test_the_key_of_a_client() -> None:
    environment = {"STRATA_KEY": "mk_demo:read", "STRATA_MODEL_KEY": "token", "PATH": "/bin"}
    assert client_key("STRATA_KEY", environ=environment) == "mk_demo:read"
    assert client_key("STRATA_MODEL_KEY", environ=environment) == "token"
    assert client_key("STRATA_KEY", environ={}) is None
    assert without_client_keys(environment) == {"PATH": "/bin"}


def test_a_file_counts_rather_than_the_environment(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("mk_file\n")
    assert client_key("STRATA_KEY", tmp_path / "key", {"STRATA_KEY": "mk_demo"}) == "mk_file"
    (tmp_path / "key").write_text("no memory key: sesame")
    with pytest.raises(SettingsError, match="key holds no key that can be used; it takes a memory key") as refused:
        client_key("STRATA_KEY", tmp_path / "key", {"STRATA_KEY": "mk_demo"})
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "folder"),
    [("/var/state", Path("/var/state/strata")), ("relative", Path.home() / ".local/state/strata")],
)
def test_where_clients_keep_their_state(value: str, folder: Path) -> None:
    assert state_folder({"XDG_STATE_HOME": value}) == folder
    assert state_folder({}) == Path.home() / ".local/state/strata"


def test_the_models_of_bedrock_are_those_that_the_adapter_knows() -> None:
    assert set(BEDROCK_MODELS) == set(MODELS)


def test_a_model_is_named_without_being_made() -> None:
    made: list[str] = []

    def make() -> HashingEmbedder:
        made.append("hashed-64")
        return HashingEmbedder()

    models = Models({"hashed-64": make})
    assert list(models) == ["hashed-64"]
    assert "hashed-64" in models
    assert "other" not in models
    assert models.get("other") is None
    assert made == []
    assert models["hashed-64"] is models["hashed-64"]
    assert made == ["hashed-64"]


@pytest.mark.parametrize(
    ("given", "offered", "default"),
    [
        ({}, set(LOCAL_MODELS), "minilm-l6-v2"),
        (AWS, set(BEDROCK_MODELS), "titan-embed-text-v2-1024"),
        (AWS | {"STRATA_EMBEDDER": "hashed-64"}, {*BEDROCK_MODELS, *LOCAL_MODELS}, "hashed-64"),
        ({"STRATA_EMBEDDER": "cohere-embed-v4-512"}, {*BEDROCK_MODELS, *LOCAL_MODELS}, "cohere-embed-v4-512"),
        (
            AWS
            | {
                "STRATA_EMBEDDER": "endpoint",
                "STRATA_EMBEDDINGS_URL": "https://host/v1",
                "STRATA_EMBEDDINGS_MODEL": "BAAI/bge-small",
                "STRATA_EMBEDDINGS_DIMENSION": "384",
            },
            {*BEDROCK_MODELS, "baai-bge-small-384"},
            "baai-bge-small-384",
        ),
    ],
)
def test_which_models_a_back_end_offers(given: dict[str, str], offered: set[str], default: str) -> None:
    models, name = chosen_embedders(load(given))
    assert set(models) == offered
    assert name == default


def test_everything_can_be_set() -> None:
    chosen = load(
        {
            "STRATA_HOST": "::1",
            "STRATA_PORT": "0",
            "STRATA_DATA": "some/folder",
            "STRATA_AUTO_PROVISION_KEYS": "0",
            "STRATA_LEASE_SECONDS": "1",
            "STRATA_EMBEDDER": "wordllama-256",
            "STRATA_LOG_LEVEL": "debug",
            "STRATA_INDEX_MEMORY_MB": "16",
        }
    )
    assert chosen == Settings("::1", 0, Path("some/folder"), False, 1, "wordllama-256", "DEBUG", 16)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("STRATA_PROT", "8787", "STRATA_PORT"),
        ("STRATA_", "1", "STRATA_HOST"),
        *(("STRATA_PORT", bad, "0 to 65535") for bad in ("", "-1", "65536", "80.0", "٣", "9" * 50, " 80")),
        *(("STRATA_DATA", bad, "folder") for bad in ("", "  ", ":memory:", "file::memory:?cache=shared", "file:x")),
        *(("STRATA_AUTO_PROVISION_KEYS", bad, "0 or 1") for bad in ("", "yes", "true", "2")),
        *(("STRATA_LEASE_SECONDS", bad, "1 to 86400") for bad in ("0", "86401", "15m")),
        ("STRATA_EMBEDDER", "gpt", "minilm-l6-v2, wordllama-256"),
        ("STRATA_LOG_LEVEL", "LOUD", "WARNING"),
        ("STRATA_INDEX_MEMORY_MB", "1", "16 to"),
        ("STRATA_HOST", "", "host name"),
        ("STRATA_BACKEND", "gcp", "embedded, aws"),
        *(("STRATA_TABLE", bad, "DynamoDB table") for bad in ("", "ab", "a b c", "x" * 256)),
        *(
            ("STRATA_SEARCH_URL", bad, "https://host")
            for bad in ("", "host:9200", "ftp://host", "http://", "http://h:x")
        ),
        ("STRATA_AWS_ENDPOINT", "127.0.0.1:4566", "https://host"),
        ("STRATA_DEAD_LETTERS", "queue", "SQS queue"),
        ("STRATA_EMBEDDINGS_DIMENSION", "1", "2 to 4096"),
        *(("STRATA_EMBEDDINGS_NOISE", bad, "from 0 to below 1") for bad in ("1", "-0.1", "nan", "x")),
    ],
)
def test_what_is_not_understood_is_named(name: str, value: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({name: value})
    assert name in str(refused.value)
    assert repr(value) in str(refused.value)
    assert allowed in str(refused.value)
