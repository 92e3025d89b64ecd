"""What the operator chooses, read once from ``STRATA_…`` variables. The only reader of the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "STRATA_"
EMBEDDERS = ("minilm-l6-v2", "wordllama-256", "hashed-64")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class SettingsError(ValueError):
    """A setting is unknown or has a value that is not allowed. The message names it, its value and what is allowed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`lease_seconds` is the length of a checkout's lease, `index_memory_mb` what resident vault indexes may use."""

    host: str = "127.0.0.1"
    port: int = 8787
    data: Path = Path(".strata")
    auto_provision_keys: bool = True
    lease_seconds: int = 900
    embedder: str = EMBEDDERS[0]
    log_level: str = "INFO"
    index_memory_mb: int = 1024


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from `environ`, by default the process environment.

    Raises `SettingsError` for an unknown ``STRATA_…`` name or a bad value: a typo must not silently mean the default.
    """
    source = os.environ if environ is None else environ
    chosen: dict[str, Any] = {}
    for variable, value in sorted(source.items()):
        if not variable.startswith(PREFIX):
            continue
        if variable not in _PARSERS:
            raise SettingsError(f"{variable}={value!r} is not a setting; known are {', '.join(_PARSERS)}")
        parse, allowed = _PARSERS[variable]
        try:
            chosen[variable.removeprefix(PREFIX).lower()] = parse(value)
        except ValueError:
            raise SettingsError(f"{variable}={value!r} is not allowed; use {allowed}") from None
    return Settings(**chosen)


def _whole(low: int, high: int) -> tuple[Callable[[str], object], str]:
    def parse(value: str) -> int:
        if not (value.isascii() and value.isdigit() and len(value) <= 10 and low <= int(value) <= high):
            raise ValueError
        return int(value)

    return parse, f"an integer from {low} to {high}"


def _one_of(values: tuple[str, ...], fold: bool = False) -> tuple[Callable[[str], object], str]:
    def parse(value: str) -> str:
        text = value.upper() if fold else value
        if text not in values:
            raise ValueError
        return text

    return parse, "one of " + ", ".join(values)


def _host(value: str) -> str:
    if not value or any(letter.isspace() or letter in "/\0" for letter in value):
        raise ValueError
    return value


def _folder(value: str) -> Path:
    if not value.strip() or "\0" in value or ":memory:" in value or value.startswith("file:"):
        raise ValueError
    return Path(value)


def _switch(value: str) -> bool:
    if value not in ("0", "1"):
        raise ValueError
    return value == "1"


_PARSERS: dict[str, tuple[Callable[[str], object], str]] = {
    "STRATA_HOST": (_host, "a host name or an IP address"),
    "STRATA_PORT": _whole(0, 65535),
    "STRATA_DATA": (_folder, "the path of a folder; data is always kept on disk"),
    "STRATA_AUTO_PROVISION_KEYS": (_switch, "0 or 1"),
    "STRATA_LEASE_SECONDS": _whole(1, 86_400),
    "STRATA_EMBEDDER": _one_of(EMBEDDERS),
    "STRATA_LOG_LEVEL": _one_of(LOG_LEVELS, fold=True),
    "STRATA_INDEX_MEMORY_MB": _whole(16, 1_048_576),
}
