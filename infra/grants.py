"""What each function may do: the actions that its code asks for, and no other. One role a function is made of it.

`GRANTS` is measured: a run through every function, with crashes that others clean up after, has to ask for all of it
and for nothing else (``tests/infra/test_grants.py``). `IMPLIED` and `POLLED` hold what no request of ours shows.

Policies do not say which vault: it comes with each request's key, and the table's partitions carry it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from aws_cdk import aws_iam as iam

from infra.functions import FUNCTIONS, INDEXER, PROVISION
from shared.api.routes import PUBLIC, ROUTES
from shared.bootstrap.aws import INDEXES

Path: TypeAlias = tuple[str, str]
"""An HTTP method and a path of the search domain, as IAM matches it: a star stands for anything."""

_OF_ALL = f"{INDEXES}-*"
MAPPING: Path = ("GET", f"{_OF_ALL}/_mapping")
ALIASES: Path = ("GET", f"{_OF_ALL}/_alias")
BEHIND: Path = ("GET", f"_alias/{_OF_ALL}")
HEALTH: Path = ("GET", f"_cluster/health/{_OF_ALL}")
CREATE: Path = ("PUT", _OF_ALL)
SEARCH: Path = ("POST", f"{_OF_ALL}/_search")
BY_ID: Path = ("POST", f"{_OF_ALL}/_mget")
REFRESH: Path = ("POST", f"{_OF_ALL}/_refresh")
BULK: Path = ("POST", f"{_OF_ALL}/_bulk")

ASKING_FOR_KEYS = frozenset(route.folder for route in ROUTES if route.scopes is not PUBLIC)
READS = frozenset(("BatchGetItem", "ConditionCheckItem", "GetItem", "Query", "Scan"))


@dataclass(frozen=True, slots=True)
class Grant:
    """What one function asks for.

    `table` are actions of DynamoDB on the table, `indexes` those of its indexes that are queried. A transaction has no
    action of its own: each part counts as the request that it stands for. `search` are requests to the search domain.
    `letters` says that it sends dead letters, `embeds` that it calls embedding models, and reads their token.
    """

    table: frozenset[str] = frozenset()
    indexes: frozenset[str] = frozenset()
    search: frozenset[Path] = frozenset()
    letters: bool = False
    embeds: bool = False

    @property
    def writes(self) -> bool:
        return bool(self.table - READS)


def _grant(table: str, *, indexes: str = "", search: Iterable[Path] = (), **more: bool) -> Grant:
    return Grant(frozenset(table.split()), frozenset(indexes.split()), frozenset(search), **more)


NOTHING = Grant()
_AUTHENTICATED = "GetItem UpdateItem"
"""Reading the key and its vault; noting when the key was last used, and how much."""
_RANKED = _grant(f"{_AUTHENTICATED} BatchGetItem Query", indexes="turn", search=(MAPPING, SEARCH), embeds=True)
_COUNTED = _grant(f"{_AUTHENTICATED} Query", indexes="when turn", search=(MAPPING, SEARCH, BY_ID))
_STORED = _grant(f"{_AUTHENTICATED} BatchGetItem PutItem DeleteItem")
_LEASED = _grant(f"{_AUTHENTICATED} BatchGetItem")

GRANTS: Mapping[str, Grant] = {
    "home": NOTHING,
    "protected_resource": NOTHING,
    # Its tools do what ten other functions do.
    "mcp": _grant(
        f"{_AUTHENTICATED} BatchGetItem PutItem DeleteItem Query BatchWriteItem",
        indexes="pool when turn",
        search=(MAPPING, SEARCH, BY_ID, REFRESH, BULK),
        embeds=True,
    ),
    "health": NOTHING,
    "openapi": NOTHING,
    "unrouted": NOTHING,
    "keys_create": _grant(f"{_AUTHENTICATED} PutItem"),
    "keys_list": _grant(f"{_AUTHENTICATED} BatchGetItem Query"),
    "keys_delete": _grant(f"{_AUTHENTICATED} DeleteItem"),
    "ingest": _STORED,
    "upload": _STORED,
    "search": _RANKED,
    "prepare": _RANKED,
    "date_search": replace(_RANKED, indexes=frozenset(("when", "turn"))),
    # Both finish what a commit or a reopening left half done before they answer.
    "inspect": _STORED,
    "export": _grant(f"{_AUTHENTICATED} BatchGetItem DeleteItem", indexes="when"),
    "checkout": _grant(f"{_AUTHENTICATED} BatchGetItem PutItem DeleteItem Query", indexes="pool"),
    "commit": _STORED,
    "release": _LEASED,
    "renew": _LEASED,
    "reopen": _STORED,
    "import_vault": _grant(f"{_AUTHENTICATED} BatchGetItem PutItem Query BatchWriteItem", indexes="when turn"),
    "delete_ids": _grant(f"{_AUTHENTICATED} BatchGetItem DeleteItem"),
    "delete_vault": _grant(
        f"{_AUTHENTICATED} BatchGetItem DeleteItem Query BatchWriteItem", indexes="turn", search=(REFRESH, SEARCH, BULK)
    ),
    "stats": _COUNTED,
    "warmup": _COUNTED,
    "usage": _grant(f"{_AUTHENTICATED} Query"),
    INDEXER: _grant(
        "GetItem UpdateItem BatchGetItem PutItem DeleteItem Query BatchWriteItem",
        indexes="turn",
        search=(MAPPING, ALIASES, SEARCH, BY_ID, REFRESH, BULK),
        letters=True,
        embeds=True,
    ),
    PROVISION: _grant("Scan", search=(BEHIND, MAPPING, CREATE, HEALTH, ALIASES)),
}

POLLED: Mapping[str, frozenset[str]] = {
    INDEXER: frozenset(("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"))
}
"""Actions of DynamoDB on the table's stream. Lambda reads the stream for the function, in its role's name, and in that
name it sends what the function could not take in time to the queue of lost batches.
"""

IMPLIED: Mapping[str, tuple[frozenset[str], str]] = {
    "read": (frozenset(("Decrypt", "DescribeKey")), "DynamoDB opens the table's key in the caller's name"),
    "write": (
        frozenset(("Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey", "ReEncryptFrom", "ReEncryptTo")),
        "DynamoDB opens and wraps the table's keys in the caller's name",
    ),
    "send": (frozenset(("Decrypt", "GenerateDataKey")), "SQS encrypts a message in the sender's name"),
    "poll": (frozenset(("Decrypt",)), "a stream is encrypted as its table is"),
}
"""Actions of KMS on the deployment's key that services take on themselves, and why; only ever through the service."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that may be invoked. With a `profile` it is invoked through that, in whichever region it picks."""

    arn: str
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """ARNs of what a deployment consists of.

    `letters` is the queue of dead letters, `lost_batches` the one of what the stream gave up, if there is any, `secret`
    the embedding endpoint's token, if it takes one.
    """

    region: str
    table: str
    stream: str
    domain: str
    letters: str
    key: str
    models: tuple[Model, ...]
    secret: str | None = None
    lost_batches: str | None = None


def statements(function: str, resources: Resources, opens_vaults: bool = False) -> list[iam.PolicyStatement]:
    """The policy of a function's role, but for its log. Raises `KeyError` for a function that nobody gave a grant.

    `opens_vaults` says that an unknown key opens a new vault, as ``STRATA_AUTO_PROVISION_KEYS=1`` has it: whichever
    function meets it first writes both.
    """
    grant = GRANTS[function]
    if opens_vaults and function in ASKING_FOR_KEYS:
        grant = replace(grant, table=grant.table | {"PutItem"})
    return [
        *_of_table(grant, resources),
        *_of_stream(function, resources),
        *_of_search(grant, resources),
        *_of_models(grant, resources),
        *([_allow("sqs", ["SendMessage"], [resources.letters])] if grant.letters else ()),
        *_of_key(function, grant, resources),
    ]


def _allow(
    service: str, actions: Iterable[str], arns: Iterable[str], conditions: Mapping[str, object] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=[f"{service}:{action}" for action in sorted(actions)],
        resources=sorted(arns),
        conditions=conditions,
    )


def _of_table(grant: Grant, resources: Resources) -> Iterator[iam.PolicyStatement]:
    if grant.table:
        yield _allow("dynamodb", grant.table, [resources.table])
    if grant.indexes:
        yield _allow("dynamodb", ["Query"], [f"{resources.table}/index/{name}" for name in grant.indexes])


def _of_stream(function: str, resources: Resources) -> Iterator[iam.PolicyStatement]:
    if function in POLLED:
        yield _allow("dynamodb", POLLED[function], [resources.stream])
        if resources.lost_batches is not None:
            yield _allow("sqs", ["SendMessage"], [resources.lost_batches])


def _of_search(grant: Grant, resources: Resources) -> Iterator[iam.PolicyStatement]:
    for method in sorted({method for method, _ in grant.search}):
        paths = [f"{resources.domain}/{path}" for each, path in grant.search if each == method]
        yield _allow("es", [f"ESHttp{method.capitalize()}"], paths)


def _of_models(grant: Grant, resources: Resources) -> Iterator[iam.PolicyStatement]:
    if not grant.embeds:
        return
    plain = [model.arn for model in resources.models if model.profile is None]
    profiles = {model.profile: model.arn for model in resources.models if model.profile is not None}
    if plain or profiles:
        yield _allow("bedrock", ["InvokeModel"], [*plain, *profiles])
    for profile, arn in profiles.items():
        # Invoking a profile takes the right to the model as well; here only by way of the profile.
        through = {"StringEquals": {"bedrock:InferenceProfileArn": profile}}
        yield _allow("bedrock", ["InvokeModel"], [arn], through)
    if resources.secret is not None:
        yield _allow("secretsmanager", ["GetSecretValue"], [resources.secret])


def _of_key(function: str, grant: Grant, resources: Resources) -> Iterator[iam.PolicyStatement]:
    of_table: set[str] = set()
    if grant.table:
        of_table |= IMPLIED["write" if grant.writes else "read"][0]
    if function in POLLED:
        of_table |= IMPLIED["poll"][0]
    sends = grant.letters or (function in POLLED and resources.lost_batches is not None)
    through = {"dynamodb": of_table, "sqs": set(IMPLIED["send"][0]) if sends else set()}
    for service, actions in through.items():
        if actions:
            via = {"StringEquals": {"kms:ViaService": f"{service}.{resources.region}.amazonaws.com"}}
            yield _allow("kms", actions, [resources.key], via)


def models(calls: Mapping[str, str], partition: str, region: str, account: str) -> tuple[Model, ...]:
    """What `calls` may reach: the model that each id stands for, as `shared.bootstrap.models.bedrock_calls` tells.

    An id that is no model's own is an inference profile's, or the ARN of one.
    """
    found: list[Model] = []
    for called, own in sorted(calls.items()):
        if called == own:
            found.append(Model(f"arn:{partition}:bedrock:{region}::foundation-model/{own}"))
            continue
        profile = called
        if not called.startswith("arn:"):
            profile = f"arn:{partition}:bedrock:{region}:{account}:inference-profile/{called}"
        # A profile spreads calls over regions that AWS may add to.
        found.append(Model(f"arn:{partition}:bedrock:*::foundation-model/{own}", profile))
    return tuple(found)


def secret_arn(secret: str, partition: str, region: str, account: str) -> str:
    """The ARN of a secret by its name or ARN. Behind a name Secrets Manager writes six characters of its own."""
    if secret.startswith("arn:"):
        return secret
    return f"arn:{partition}:secretsmanager:{region}:{account}:secret:{secret}-??????"


if GRANTS.keys() != FUNCTIONS.keys():
    raise AssertionError(f"functions and grants differ: {sorted(GRANTS.keys() ^ FUNCTIONS.keys())}")
