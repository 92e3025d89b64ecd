"""Every function's role allows what the function asks for, all of it and nothing else: measured, not read off."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from infra import grants
from infra.functions import FUNCTIONS
from infra.grants import GRANTS, Grant, Model, Resources, models, secret_arn, statements
from shared import bootstrap
from shared.adapters.dynamodb.layout import SCHEMA
from shared.adapters.opensearch.transport import Transport
from shared.api.routes import ROUTES
from shared.bootstrap.models import bedrock_calls
from tests.dynamodb.table import MemoryTable
from tests.emulator.ministack import Ministack, session
from tests.infra.deployment import BEDROCK, QUEUE, SECRET, Deployment, World, answered
from tests.infra.mix import FULL, SMALL, Sizes, play
from tests.infra.policies import Request, differences, pattern, wide
from tests.infra.recorder import Needed, actions
from tests.infra.search_stand_in import SearchStandIn

TABLE = "arn:aws:dynamodb:eu-west-1:111122223333:table/strata-x"
DOMAIN = "arn:aws:es:eu-west-1:111122223333:domain/strata-x"
LETTERS = f"arn:aws:sqs:eu-west-1:111122223333:{QUEUE}"
TITAN = "arn:aws:bedrock:eu-west-1::foundation-model/amazon.titan-embed-text-v2:0"
RESOURCES = Resources(
    region="eu-west-1",
    table=TABLE,
    stream=f"{TABLE}/stream/2026-01-01T00:00:00.000",
    domain=DOMAIN,
    letters=LETTERS,
    key="arn:aws:kms:eu-west-1:111122223333:key/k",
    models=(Model(TITAN),),
    secret=secret_arn(SECRET, "aws", "eu-west-1", "111122223333"),
    lost_batches="arn:aws:sqs:eu-west-1:111122223333:strata-lost-batches",
)
ARNS = {
    "table": TABLE,
    "amazon.titan-embed-text-v2:0": TITAN,
    SECRET: f"arn:aws:secretsmanager:eu-west-1:111122223333:secret:{SECRET}-a1B2c3",
    QUEUE: LETTERS,
}
UNSEEN = {RESOURCES.stream, RESOURCES.lost_batches, RESOURCES.key}
"""What only Lambda and the services ask for, in the role's name."""

Seen = Mapping[str, set[Request]]


def arn_of(on: str) -> str:
    """Of what the recorder saw, in the account of `RESOURCES`."""
    if on.startswith("/"):
        return DOMAIN + on
    return f"{TABLE}/{on}" if on.startswith("index/") else ARNS[on]


@contextmanager
def deployed(world: World) -> Iterator[tuple[Deployment, pytest.MonkeyPatch]]:
    with pytest.MonkeyPatch.context() as patched:
        deployment = Deployment(world, patched)
        bootstrap.activate(deployment.backend)
        try:
            yield deployment, patched
        finally:
            deployment.backend.close()
            bootstrap.activate(None)


def recorded(world: World, sizes: Sizes) -> Seen:
    """What each function asked for in the run."""
    with deployed(world) as (deployment, patched):
        play(deployment, patched, sizes)
    return requests(deployment)


def requests(deployment: Deployment) -> Seen:
    seen = deployment.recorder.seen
    return {name: {Request(each.action, arn_of(each.on)) for each in needed} for name, needed in seen.items()}


def policy(function: str, opens_vaults: bool = False) -> list[Any]:
    return [statement.to_statement_json() for statement in statements(function, RESOURCES, opens_vaults)]


def visible(function: str, opens_vaults: bool = False) -> list[Any]:
    """The part of a function's policy that its own requests need."""
    return [each for each in policy(function, opens_vaults) if each["Resource"] not in (*UNSEEN,)]


def compared(seen: Seen) -> list[str]:
    """Of all functions, what their policies lack and what they have in vain."""
    found: list[str] = []
    for function in GRANTS:
        found += differences(function, seen[function], visible(function))
    return found


@pytest.fixture(scope="module")
def seen() -> Seen:
    return recorded(in_memory(), SMALL)


class Scanned(MemoryTable):
    """With the one request that only a deployment makes."""

    def scan(self, **request: Any) -> dict[str, Any]:
        if self.before is not None:
            self.before("scan", request)
        return {"Items": [item for item in self.snapshot(request["TableName"]) if item["sk"] == {"S": "V"}]}


def in_memory() -> World:
    table = Scanned()
    table.create_table(TableName="t", **SCHEMA)
    answers = {"secretsmanager": {"SecretString": "sk-1"}, "sqs": {"MessageId": "1"}}
    held: dict[str, dict[str, Any]] = {}
    names: dict[str, str] = {}

    def client(service: str) -> Any:
        if service == "dynamodb":
            return table
        made = session().client(service)
        if service in answers:
            made.meta.events.register("before-send", lambda request, **_: answered(request, answers[service]))
        return made

    queue = f"https://sqs.example.com/1/{QUEUE}"
    return World(client, table.streams(), lambda: SearchStandIn(held, names), "t", "strata", queue)


def test_every_function_is_granted_what_it_asks_for_and_nothing_else(seen: Seen) -> None:
    assert seen.keys() == FUNCTIONS.keys() == GRANTS.keys()
    assert compared(seen) == []


def without_each(grant: Grant) -> Iterator[tuple[str, Grant]]:
    """The grant without one of its parts, and what would then be lacking."""
    for action in grant.table:
        yield f"dynamodb:{action} on {TABLE}", replace(grant, table=grant.table - {action})
    for index in grant.indexes:
        yield f"dynamodb:Query on {TABLE}/index/{index}", replace(grant, indexes=grant.indexes - {index})
    for method, path in grant.search:
        yield (
            f"es:ESHttp{method.capitalize()} on {DOMAIN}/{path}",
            replace(grant, search=grant.search - {(method, path)}),
        )
    if grant.letters:
        yield f"sqs:SendMessage on {LETTERS}", replace(grant, letters=False)
    if grant.embeds:
        yield f"bedrock:InvokeModel on {TITAN}", replace(grant, embeds=False)


def with_more(grant: Grant) -> Iterator[tuple[str, Grant]]:
    for action in ("Scan", "DeleteTable", "PutItem", "BatchWriteItem"):
        if action not in grant.table:
            yield f"dynamodb:{action} on {TABLE}", replace(grant, table=grant.table | {action})
    for index in {"pool", "when", "turn"} - grant.indexes:
        yield f"dynamodb:Query on {TABLE}/index/{index}", replace(grant, indexes=grant.indexes | {index})
    more = replace(grant, search=grant.search | {("DELETE", "strata-*")})
    yield f"es:ESHttpDelete on {DOMAIN}/strata-*", more
    if not grant.letters:
        yield f"sqs:SendMessage on {LETTERS}", replace(grant, letters=True)
    if not grant.embeds:
        yield f"bedrock:InvokeModel on {TITAN}", replace(grant, embeds=True)


def test_every_change_of_a_grant_is_noticed(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = 0
    for function, grant in GRANTS.items():
        for says, changed in (("lacks", without_each(grant)), ("does not need", with_more(grant))):
            for what, other in changed:
                with monkeypatch.context() as patched:
                    patched.setattr(grants, "GRANTS", {function: other})
                    found = differences(function, seen[function], visible(function))
                named = pattern(f"{function} {says} {what}")
                assert any(named.fullmatch(each) for each in found), (function, what, found)
                changes += 1
    assert changes > 5 * len(GRANTS)


def test_where_unknown_keys_open_vaults_whoever_meets_one_first_may_write_it() -> None:
    with deployed(in_memory()) as (deployment, _):
        services = deployment.backend.services
        deployment.backend.services = replace(services, policy=replace(services.policy, auto_provision_keys=True))
        for number, route in enumerate(ROUTES):
            path = route.path.replace("{key_id}", "none")
            deployment.anybody().using(f"mk_unknown-{number}").call(route.method, path, {})
    seen = requests(deployment)
    writing = Request("dynamodb:PutItem", TABLE)
    keyless = {"home", "health", "openapi", "protected_resource"}
    assert {name for name, asked in seen.items() if writing in asked} == seen.keys() - keyless
    for name, asked in seen.items():
        assert [each for each in differences(name, asked, visible(name, opens_vaults=True)) if "lacks" in each] == []
        assert (visible(name) == visible(name, opens_vaults=True)) is (
            name in keyless or "PutItem" in GRANTS[name].table
        )


@pytest.mark.slow
@pytest.mark.loopback
def test_the_same_holds_at_full_size_on_an_emulator_and_a_real_search_store(
    ministack: Ministack, opensearch_url: str
) -> None:
    name = f"grants-{uuid4().hex[:8]}"
    ministack.client("dynamodb").create_table(TableName=name, **SCHEMA)
    queue = ministack.client("sqs").create_queue(QueueName=QUEUE)["QueueUrl"]
    ministack.client("secretsmanager").create_secret(Name=SECRET, SecretString="sk-1")
    streams = ministack.client("dynamodbstreams")
    indexes = f"strata-{name}"
    transports = Transport(opensearch_url)
    try:
        world = World(ministack.client, streams, lambda: Transport(opensearch_url), name, indexes, queue)
        assert compared(recorded(world, FULL)) == []
    finally:
        for index in transports.request("GET", f"/{indexes}-*/_alias"):
            transports.request("DELETE", f"/{index}")
        transports.close()


def test_a_policy_reads_as_worked_by_hand() -> None:
    """Of the one function that does a bit of everything, by the services' own documents."""
    via = {"StringEquals": {"kms:ViaService": "dynamodb.eu-west-1.amazonaws.com"}}
    of_table = ["Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey", "ReEncryptFrom", "ReEncryptTo"]
    assert policy("search") == [
        {
            "Effect": "Allow",
            "Action": [f"dynamodb:{name}" for name in ("BatchGetItem", "GetItem", "Query", "UpdateItem")],
            "Resource": TABLE,
        },
        {"Effect": "Allow", "Action": "dynamodb:Query", "Resource": f"{TABLE}/index/turn"},
        {"Effect": "Allow", "Action": "es:ESHttpGet", "Resource": f"{DOMAIN}/strata-*/_mapping"},
        {"Effect": "Allow", "Action": "es:ESHttpPost", "Resource": f"{DOMAIN}/strata-*/_search"},
        {"Effect": "Allow", "Action": "bedrock:InvokeModel", "Resource": TITAN},
        {
            "Effect": "Allow",
            "Action": "secretsmanager:GetSecretValue",
            "Resource": f"arn:aws:secretsmanager:eu-west-1:111122223333:secret:{SECRET}-??????",
        },
        {
            "Effect": "Allow",
            "Action": [f"kms:{name}" for name in of_table],
            "Resource": "arn:aws:kms:eu-west-1:111122223333:key/k",
            "Condition": via,
        },
    ]
    assert policy("home") == []


def test_the_indexer_reads_the_stream_and_writes_letters_under_the_key() -> None:
    by_actions = {json.dumps(each["Action"]): each for each in policy("indexer")}
    polled = [f"dynamodb:{name}" for name in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")]
    assert by_actions[json.dumps(polled)]["Resource"] == RESOURCES.stream
    sent_to = [each["Resource"] for each in policy("indexer") if each["Action"] == "sqs:SendMessage"]
    assert set(sent_to) == {LETTERS, RESOURCES.lost_batches}
    sending = by_actions['["kms:Decrypt", "kms:GenerateDataKey"]']
    assert sending["Condition"] == {"StringEquals": {"kms:ViaService": "sqs.eu-west-1.amazonaws.com"}}


def test_no_policy_is_wider_than_it_has_to_be() -> None:
    numbers = count(1)
    template = {
        "Resources": {
            f"{function}{next(numbers)}": {
                "Type": "AWS::IAM::Policy",
                "Properties": {"PolicyDocument": {"Statement": policy(function)}},
            }
            for function in GRANTS
        }
    }
    assert wide(template) == []


COHERE = "arn:aws:bedrock:eu-west-1::foundation-model/cohere.embed-v4:0"


def test_models_are_those_on_offer_and_a_profile_is_the_only_way_to_its_model() -> None:
    plain = models(bedrock_calls(BEDROCK, None), "aws", "eu-west-1", "1")
    multilingual = "arn:aws:bedrock:eu-west-1::foundation-model/cohere.embed-multilingual-v3"
    assert {model.arn for model in plain} == {TITAN, COHERE, multilingual}
    assert {model.profile for model in plain} == {None}
    calls = bedrock_calls("cohere-embed-multilingual-v3-1024", "eu.cohere.embed-multilingual-v3")
    through = models(calls, "aws", "eu-west-1", "1")
    profile = "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.cohere.embed-multilingual-v3"
    anywhere = "arn:aws:bedrock:*::foundation-model/cohere.embed-multilingual-v3"
    assert set(through) == {Model(TITAN), Model(COHERE), Model(anywhere, profile)}
    invoking = [
        each.to_statement_json()
        for each in statements("search", replace(RESOURCES, models=through, secret=None))
        if "bedrock:InvokeModel" in each.actions
    ]
    assert invoking == [
        {"Effect": "Allow", "Action": "bedrock:InvokeModel", "Resource": sorted((TITAN, COHERE, profile))},
        {
            "Effect": "Allow",
            "Action": "bedrock:InvokeModel",
            "Resource": anywhere,
            "Condition": {"StringEquals": {"bedrock:InferenceProfileArn": profile}},
        },
    ]


def test_a_profile_and_a_secret_may_be_named_by_their_arns() -> None:
    profile = "arn:aws:bedrock:eu-west-1:1:application-inference-profile/p"
    (model,) = models({profile: "cohere.embed-v4:0"}, "aws", "eu-west-1", "1")
    assert model.profile == profile
    arn = "arn:aws:secretsmanager:eu-west-1:1:secret:token-a1B2c3"
    assert secret_arn(arn, "aws", "eu-west-1", "1") == arn


def test_a_part_of_a_transaction_counts_as_the_request_it_stands_for() -> None:
    parts = [{kind: {"TableName": "t"}} for kind in ("Put", "Update", "Delete", "ConditionCheck")]
    asked = set(actions("dynamodb", "TransactWriteItems", {"TransactItems": parts}))
    names = ("PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem")
    assert asked == {Needed(f"dynamodb:{name}", "table") for name in names}
    assert set(actions("dynamodb", "Query", {"IndexName": "pool"})) == {Needed("dynamodb:Query", "index/pool")}
    with pytest.raises(KeyError):
        list(actions("s3", "GetObject", {}))
