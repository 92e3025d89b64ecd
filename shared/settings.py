"""What the operator chooses, read once from ``STRATA_…`` variables. The only reader of the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shared.domain import keys

PREFIX = "STRATA_"
EMBEDDED, AWS = "embedded", "aws"
BACKENDS = (EMBEDDED, AWS)
LOCAL_MODELS = ("minilm-l6-v2", "wordllama-256", "hashed-64")
BEDROCK_MODELS = (
    "titan-embed-text-v2-1024",
    "titan-embed-text-v2-512",
    "titan-embed-text-v2-256",
    "cohere-embed-multilingual-v3-1024",
    "cohere-embed-v4-1536",
    "cohere-embed-v4-1024",
    "cohere-embed-v4-512",
    "cohere-embed-v4-256",
)
ENDPOINT = "endpoint"
EMBEDDERS = (*LOCAL_MODELS, *BEDROCK_MODELS, ENDPOINT)
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
# Keys of this project's own clients. The server accepts both names, since one shell may start both, and uses neither.
VAULT_KEY, MODEL_KEY = "STRATA_KEY", "STRATA_MODEL_KEY"
CLIENT_KEYS = (VAULT_KEY, MODEL_KEY)


class SettingsError(ValueError):
    """A setting is unknown, missing, or has a value that is not allowed. The message names it and what is allowed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`lease_seconds` is the length of a checkout's lease, `index_memory_mb` what resident vault indexes may use.

    `table`, `search_url`, `aws_endpoint`, `dead_letters` and `service` belong to the AWS back end: the table's name,
    the address of OpenSearch, the address of an emulator (None: AWS itself), the address of the queue for changes that
    can never be indexed, the name that metrics and logs are written under (None: neither are). `embeddings_*` describe
    the model behind an OpenAI-compatible endpoint: its base address, its name there, its vectors' length, a bearer
    token or the secret of Secrets Manager that holds it, the cosine below which nearness means nothing, and whether it
    is asked for that length. `bedrock_model_id` is called instead of the model's own id, such as an inference profile.
    `origins` are the web pages' origins that may call ``/mcp``, `public_url` is the address that clients reach the
    server at (None: the one they used), `authorization_server` the OAuth server that stands before it, and
    `calls_per_minute` says how often one key may call ``/mcp`` (0: as often as it likes).
    """

    host: str = "127.0.0.1"
    port: int = 8787
    data: Path = Path(".strata")
    auto_provision_keys: bool = True
    lease_seconds: int = 900
    embedder: str = LOCAL_MODELS[0]
    log_level: str = "INFO"
    index_memory_mb: int = 1024
    backend: str = EMBEDDED
    table: str | None = None
    search_url: str | None = None
    aws_endpoint: str | None = None
    dead_letters: str | None = None
    embeddings_url: str | None = None
    embeddings_model: str | None = None
    embeddings_dimension: int | None = None
    embeddings_key: str | None = field(default=None, repr=False)
    embeddings_secret: str | None = None
    embeddings_noise: float = 0.3
    embeddings_shorten: bool = False
    bedrock_model_id: str | None = None
    service: str | None = None
    origins: tuple[str, ...] | None = None
    public_url: str | None = None
    authorization_server: str | None = None
    calls_per_minute: int = 1_000


# On AWS keys are made by an administrator, and no model is part of a function's package.
_ON_AWS: dict[str, Any] = {"auto_provision_keys": False, "embedder": BEDROCK_MODELS[0]}
_NEEDED_ON_AWS = ("table", "search_url")
_NEEDED_FOR_ENDPOINT = ("embeddings_url", "embeddings_model", "embeddings_dimension")


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from `environ`, by default the process environment.

    Raises `SettingsError` for an unknown ``STRATA_…`` name or a bad value, since a typo must not silently mean the
    default, and for a setting that others need and that is missing.
    """
    source = os.environ if environ is None else environ
    chosen: dict[str, Any] = {}
    for variable, value in sorted(source.items()):
        if not variable.startswith(PREFIX) or variable in CLIENT_KEYS:
            continue
        if variable not in _PARSERS:
            raise SettingsError(f"{variable}={value!r} is not a setting; known are {', '.join(_PARSERS)}")
        parse, allowed = _PARSERS[variable]
        try:
            chosen[variable.removeprefix(PREFIX).lower()] = parse(value)
        except ValueError:
            shown = "…" if variable in _SECRET else repr(value)
            raise SettingsError(f"{variable}={shown} is not allowed; use {allowed}") from None
    settings = Settings(**{**(_ON_AWS if chosen.get("backend") == AWS else {}), **chosen})
    _check(settings)
    return settings


def client_key(variable: str, file: Path | None = None, environ: Mapping[str, str] | None = None) -> str | None:
    """A key of `CLIENT_KEYS`: the only line of `file`, else the value of `variable`; None where neither is given.

    Raises `SettingsError`, which names the file or the variable and never shows what it holds.
    """
    source = os.environ if environ is None else environ
    if file is None:
        place, given = variable, source.get(variable)
    else:
        place = str(file)
        try:
            given = file.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"{place} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}"
            ) from None
    if given is None:
        return None
    parse, allowed = _CLIENT_PARSERS[variable]
    try:
        return parse(given)
    except ValueError:
        raise SettingsError(f"{place} holds no key that can be used; it takes {allowed}") from None


def without_client_keys(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a program that a client starts and that needs none of its keys."""
    source = os.environ if environ is None else environ
    return {name: value for name, value in source.items() if name not in CLIENT_KEYS}


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where a client keeps what it remembers from run to run: below ``XDG_STATE_HOME``, else ``~/.local/state``."""
    base = Path((os.environ if environ is None else environ).get("XDG_STATE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "strata"


def _check(settings: Settings) -> None:
    if settings.backend == AWS:
        _need(settings, _NEEDED_ON_AWS, f"{PREFIX}BACKEND={AWS}")
    if settings.embedder == ENDPOINT:
        _need(settings, _NEEDED_FOR_ENDPOINT, f"{PREFIX}EMBEDDER={ENDPOINT}")
    elif settings.embeddings_url is not None:
        _need(settings, _NEEDED_FOR_ENDPOINT, f"{PREFIX}EMBEDDINGS_URL")
    if settings.embeddings_key is not None and settings.embeddings_secret is not None:
        raise SettingsError(
            f"{PREFIX}EMBEDDINGS_KEY and {PREFIX}EMBEDDINGS_SECRET both say what the token is; set only one of them"
        )


def _need(settings: Settings, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if getattr(settings, name) is None:
            variable = PREFIX + name.upper()
            raise SettingsError(f"{variable} is missing; {why} needs {_PARSERS[variable][1]} there")


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


def _word(value: str) -> str:
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError
    return value


def _memory_key(value: str) -> str:
    if keys.parse(_word(value)) is None:
        raise ValueError
    return value


def _named(value: str, shortest: int, longest: int) -> str:
    if not shortest <= len(value) <= longest or not all(
        letter.isascii() and (letter.isalnum() or letter in "_.-") for letter in value
    ):
        raise ValueError
    return value


def _table(value: str) -> str:
    return _named(value, 3, 255)


def _service(value: str) -> str:
    return _named(value, 1, 64)


def _address(value: str) -> str:
    parts = urlsplit(_word(value))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError
    # Reading the port checks it.
    _ = parts.port
    return value.rstrip("/")


def _share(value: str) -> float:
    number = float(value)
    if not 0 <= number < 1:
        raise ValueError
    return number


def _origins(value: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in value.split(",") if each.strip())
    for each in found:
        parts = urlsplit(_word(each))
        if each != "*" and (parts.scheme not in ("http", "https") or each != f"{parts.scheme}://{parts.netloc}"):
            raise ValueError
    return found


_ADDRESS = (_address, "an address such as https://host or http://127.0.0.1:9200")
_TOKEN = "a token of visible ASCII characters"
_SECRET = frozenset(("STRATA_EMBEDDINGS_KEY",))
_CLIENT_PARSERS: dict[str, tuple[Callable[[str], str], str]] = {
    VAULT_KEY: (_memory_key, "a memory key such as mk_…, with or without a suffix"),
    MODEL_KEY: (_word, _TOKEN),
}
_PARSERS: dict[str, tuple[Callable[[str], object], str]] = {
    "STRATA_HOST": (_host, "a host name or an IP address"),
    "STRATA_PORT": _whole(0, 65535),
    "STRATA_DATA": (_folder, "the path of a folder; data is always kept on disk"),
    "STRATA_AUTO_PROVISION_KEYS": (_switch, "0 or 1"),
    "STRATA_LEASE_SECONDS": _whole(1, 86_400),
    "STRATA_EMBEDDER": _one_of(EMBEDDERS),
    "STRATA_LOG_LEVEL": _one_of(LOG_LEVELS, fold=True),
    "STRATA_INDEX_MEMORY_MB": _whole(16, 1_048_576),
    "STRATA_BACKEND": _one_of(BACKENDS),
    "STRATA_TABLE": (_table, "the name of a DynamoDB table"),
    "STRATA_SEARCH_URL": _ADDRESS,
    "STRATA_AWS_ENDPOINT": _ADDRESS,
    "STRATA_DEAD_LETTERS": (_address, "the address of an SQS queue"),
    "STRATA_EMBEDDINGS_URL": (_address, "an address such as https://host/v1"),
    "STRATA_EMBEDDINGS_MODEL": (_word, "the name of a model, without spaces"),
    "STRATA_EMBEDDINGS_DIMENSION": _whole(2, 4_096),
    "STRATA_EMBEDDINGS_KEY": (_word, _TOKEN),
    "STRATA_EMBEDDINGS_SECRET": (_word, "the name or the ARN of a secret in AWS Secrets Manager"),
    "STRATA_EMBEDDINGS_NOISE": (_share, "a number from 0 to below 1"),
    "STRATA_EMBEDDINGS_SHORTEN": (_switch, "0 or 1"),
    "STRATA_BEDROCK_MODEL_ID": (_word, "the id of a model or an inference profile, without spaces"),
    "STRATA_SERVICE": (_service, "a name of 1 to 64 letters, digits, dots, hyphens and underscores"),
    "STRATA_ORIGINS": (_origins, "origins such as https://app.example.com, parted by commas, or *"),
    "STRATA_PUBLIC_URL": (_address, "an address such as https://memory.example.com"),
    "STRATA_AUTHORIZATION_SERVER": (_address, "an address such as https://login.example.com"),
    "STRATA_CALLS_PER_MINUTE": _whole(0, 1_000_000),
}
