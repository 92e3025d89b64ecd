"""The environments of ``cdk.json``: what each may say, checked before anything is made of it."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from shared.settings import BEDROCK_MODELS, ENDPOINT

THIS = "this"
"""The Python, or the processor, that runs the synthesis: an emulator runs functions with its own."""

Embedder = Literal[(*BEDROCK_MODELS, ENDPOINT)]  # type: ignore[valid-type]
LOG_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827, 3653)
LogDays = Literal[LOG_DAYS]  # type: ignore[valid-type]
NAME = r"^[a-z][a-z0-9-]{0,15}$"
ADDRESS = r"^https?://[^\s?#]+$"
STREAM = r"^arn:[a-z-]+:dynamodb:[a-z0-9-]+:\d{12}:table/[A-Za-z0-9_.-]{3,255}/stream/[0-9T:.-]+$"


class WrongEnvironment(ValueError):
    """No such environment, or it says something that is not allowed. The message says where and what to do."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Search(_Part):
    """The OpenSearch domain. `volume` is GiB a node; `scheme` is http only where an emulator stands for the domain."""

    instance: Annotated[str, Field(pattern=r"^[a-z0-9]+\.[a-z0-9]+\.search$")]
    nodes: Annotated[int, Field(ge=1, le=80)]
    volume: Annotated[int, Field(ge=10, le=24_000)]
    scheme: Literal["https", "http"] = "https"
    masters: Literal[0, 3, 5] = 0
    master_instance: Annotated[str, Field(pattern=r"^[a-z0-9]+\.[a-z0-9]+\.search$")] = "m7g.medium.search"

    @property
    def replicas(self) -> int:
        return min(self.nodes, 3) - 1


class Endpoint(_Part):
    """An OpenAI-compatible embedding endpoint. `secret` names the secret of Secrets Manager that holds its token."""

    url: Annotated[str, Field(pattern=ADDRESS)]
    model: Annotated[str, Field(pattern=r"^[!-~]+$")]
    dimension: Annotated[int, Field(ge=2, le=4_096)]
    noise: Annotated[float, Field(ge=0, lt=1)] = 0.3
    shorten: bool = False
    secret: str | None = None


class Environment(_Part):
    """One deployment. `log_days` is how long logs are kept, `rate` and `burst` what the API lets through a second.

    `alarm_address` is an e-mail address that every alarm writes to. `cors_origins` are the web pages' origins that may
    call the API from a browser. `snap_start` keeps initialised functions at hand, which costs. `table_stream` is the
    ARN of another table's stream: the API serves that table, such as a restored one; the environment keeps its own.
    `public_url`, `authorization_server` and `calls_per_minute` are the settings of those names.
    """

    name: Annotated[str, Field(pattern=NAME)]
    account: Annotated[str, Field(pattern=r"^\d{12}$")] | None = None
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")] | None = None
    runtime: Literal["3.11", "3.12", "3.13", "3.14", "this"]
    architecture: Literal["arm64", "x86_64", "this"]
    search: Search
    embedder: Embedder
    endpoint: Endpoint | None = None
    bedrock_model_id: str | None = None
    snap_start: bool
    log_days: LogDays
    rate: Annotated[int, Field(ge=1, le=100_000)]
    burst: Annotated[int, Field(ge=1, le=100_000)]
    alarm_address: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")] | None = None
    cors_origins: tuple[Annotated[str, Field(pattern=r"^(\*|https?://[^\s/]+)$")], ...] = ()
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    auto_provision_keys: bool = False
    table_stream: Annotated[str, Field(pattern=STREAM)] | None = None
    public_url: Annotated[str, Field(pattern=ADDRESS)] | None = None
    authorization_server: Annotated[str, Field(pattern=ADDRESS)] | None = None
    calls_per_minute: Annotated[int, Field(ge=0, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Environment:
        if (self.embedder == ENDPOINT) != (self.endpoint is not None):
            raise ValueError(f"embedder {ENDPOINT!r} and the part `endpoint` go together")
        if self.snap_start and self.runtime in ("3.11", THIS):
            raise ValueError("snap_start needs runtime 3.12 or newer")
        if self.search.scheme == "https" and self.search.nodes == 2:
            raise ValueError("search.nodes: two nodes cannot elect a master; take 1 or at least 3")
        return self

    @property
    def python(self) -> str:
        """The runtime as a version, such as 3.13."""
        return f"{sys.version_info.major}.{sys.version_info.minor}" if self.runtime == THIS else self.runtime

    @property
    def processor(self) -> Literal["arm64", "x86_64"]:
        if self.architecture != THIS:
            return "arm64" if self.architecture == "arm64" else "x86_64"
        return "arm64" if platform.machine().lower() in ("aarch64", "arm64") else "x86_64"

    @property
    def wheels(self) -> str:
        """Which builds of packages the functions need: those of this machine where an emulator runs them."""
        return "native" if self.architecture == THIS else self.processor

    @property
    def emulated(self) -> bool:
        return self.search.scheme == "http"

    @property
    def table_name(self) -> str:
        """Of its own table, whichever is served."""
        return f"strata-{self.name}"

    @property
    def domain_name(self) -> str:
        return f"strata-{self.name}"

    @property
    def data_stack(self) -> str:
        return f"strata-{self.name}-data"

    @property
    def api_stack(self) -> str:
        return f"strata-{self.name}-api"


def chosen(context: Callable[[str], object]) -> Environment:
    """The environment that ``-c env=NAME`` chose of the context. Raises `WrongEnvironment`."""
    environments = context("environments")
    if isinstance(environments, str):
        # From the command line everything is text.
        environments = _parsed(environments)
    if not isinstance(environments, Mapping) or not environments:
        raise WrongEnvironment("cdk.json has no `environments` in its context; take them from the repository's")
    name = context("env")
    known = ", ".join(sorted(environments))
    if not isinstance(name, str) or not name:
        raise WrongEnvironment(f"say which environment: -c env=NAME, one of {known}")
    if name not in environments:
        raise WrongEnvironment(f"there is no environment {name!r} in cdk.json; there are {known}")
    return read(name, environments[name])


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise WrongEnvironment(f"-c environments=... is no JSON: {error}") from None


def read(name: str, described: object) -> Environment:
    """An environment of this name from its description. Raises `WrongEnvironment` that names every wrong value."""
    if not isinstance(described, Mapping):
        raise WrongEnvironment(f"cdk.json: environments.{name} must be an object")
    try:
        return Environment.model_validate({**described, "name": name})
    except ValidationError as error:
        wrong = [_said(name, each["loc"], each["msg"], each.get("input")) for each in error.errors()]
        raise WrongEnvironment("\n".join(wrong)) from None


def _said(name: str, place: tuple[int | str, ...], message: str, value: object) -> str:
    path = ".".join(("environments", name, *(str(part) for part in place)))
    shown = "" if isinstance(value, Mapping) else f" is {value!r}:"
    return f"cdk.json: {path}{shown} {message.removeprefix('Value error, ')}"
