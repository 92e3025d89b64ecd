"""Settings: every name and value is either understood or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.settings import Settings, SettingsError, load


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
    )


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
    ],
)
def test_what_is_not_understood_is_named(name: str, value: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({name: value})
    assert name in str(refused.value)
    assert repr(value) in str(refused.value)
    assert allowed in str(refused.value)
