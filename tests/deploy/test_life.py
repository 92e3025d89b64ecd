"""One deployment from its first day to its last: used, changed under load, given a new index layout, taken down."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.local import account
from infra.local.account import Account, DeploymentFailed
from infra.toolkit import ROOT
from infra.variables import variables
from shared import bootstrap
from shared.adapters.opensearch.mapping import VERSION
from tests.api.client import Client
from tests.deploy.http_gateway import HttpGateway
from tests.deploy.releases import Release, index
from tests.deploy.traffic import Seen, Traffic

pytestmark = pytest.mark.xdist_group("deployed")

CHECKOUT, COMMIT = "/v1/memory/consolidate/checkout", "/v1/memory/consolidate/commit"
INDEXED_S = 120.0
ROWS, CONSOLIDATORS = 240, 8


class Life:
    """The deployment of one account, and one vault in it that everything happens to."""

    def __init__(self, emulated: Account, folder: Path) -> None:
        self.account, self.folder = emulated, folder
        self.gateway: HttpGateway | None = None
        self.aws: bootstrap.Aws | None = None

    def synthesise(self, name: str, *context: str, sources: Path = ROOT) -> Path:
        return self.account.synthesise(self.folder / name, *context, sources=sources)

    def connect(self) -> Client:
        """By the same keys as before, at the address of today."""
        if self.gateway is None:
            self.gateway = HttpGateway(self.account.url)
        self.gateway.url = self.account.url
        self.aws = self.aws or bootstrap.Aws(self.account.settings())
        return Client(self.gateway, self.aws.services, "mk_life")

    def table(self) -> tuple[str, Any]:
        found = self.account.client("dynamodb").describe_table(TableName=self.account.environment.table_name)["Table"]
        return found["TableId"], found["CreationDateTime"]

    def settings(self) -> dict[str, str]:
        """The environment of an operator's command."""
        told = variables(self.account.environment, self.account.environment.table_name, self.account.search_url)
        return {"PATH": os.environ["PATH"], **self.account.variables, **told}

    def words_found(self, client: Client, seen: Seen) -> None:
        """Every word that was stored is found, once the index has caught up.

        The emulator never delivers again what a function was given that it killed: an operator's command brings it in.
        """
        deadline, may_catch_up = time.monotonic() + INDEXED_S, True
        for word, id_ in seen.stored.items():
            while True:
                answer = client.post("/v1/memory/search", {"query": word, "limit": 1})
                assert answer.status == 200, answer.body
                if [row["id"] for row in answer.json["memories"]] == [id_]:
                    break
                late = time.monotonic() >= deadline
                assert may_catch_up or not late, f"{word} is not found: {client.get('/v1/memory/stats').json}"
                if late:
                    index(ROOT, "catch-up", self.settings())
                    deadline, may_catch_up = time.monotonic() + INDEXED_S, False
                time.sleep(0.5)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    with account.running("hashed-64") as emulated:
        made = Life(emulated, tmp_path)
        yield made
        if made.aws is not None:
            made.aws.close()


def test_a_deployment_from_its_first_day_to_its_last(life: Life) -> None:
    first = life.synthesise("first")
    unbootstrapped(life, first)
    life.account.bootstrap(first)
    life.account.deploy(first)
    client, table = life.connect(), life.table()
    consolidated_by_many_at_once(client)
    changed_under_load(life, client)
    a_new_layout_under_load(life, client)
    assert life.table() == table
    kept = client.export()
    taken_down_and_put_up_again(life, first, kept)
    assert life.table() == table
    deleted_on_purpose(life)


def unbootstrapped(life: Life, app: Path) -> None:
    with pytest.raises(DeploymentFailed, match="bootstrap"):
        life.account.deploy(app)


def consolidated_by_many_at_once(client: Client) -> None:
    """Each memory becomes a source of exactly one batch, whoever takes it."""
    for start in range(0, ROWS, 40):
        client.ingest(
            *(f"memory number {number} of the morning{' and more' * 30}" for number in range(start, start + 40))
        )
    raw = {row["id"] for row in client.export()}
    assert len(raw) == ROWS
    taken: list[list[str]] = []
    problems: list[str] = []

    def work() -> None:
        while True:
            batch = client.post(CHECKOUT, {"tier": 1, "max_tokens": 1_000})
            if batch.status == 503:
                time.sleep(float(batch.headers.get("retry-after") or batch.headers["Retry-After"]))
                continue
            if batch.status != 200 or not batch.json["batch_id"]:
                if batch.status != 200:
                    problems.append(f"{batch.status} {batch.body!r}")
                return
            body = {"batch_id": batch.json["batch_id"], "entries": [{"text": "a morning of memories", "importance": 5}]}
            answers = [client.post(COMMIT, body) for _ in range(2)]
            created = [answer.json["created"] for answer in answers]
            if [answer.status for answer in answers] != [200, 200] or created[0] != created[1]:
                problems.append(repr([answer.body for answer in answers]))
            taken.append(batch.json["source_ids"])

    threads = [threading.Thread(target=work) for _ in range(CONSOLIDATORS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    sources = [source for batch in taken for source in batch]
    assert sorted(sources) == sorted(raw)
    assert len(taken) > CONSOLIDATORS / 2
    stats = client.get("/v1/memory/stats").json
    assert stats["reflection"]["unconsolidated"]["raw"]["units"] == 0
    assert stats["reflection"]["unconsolidated"]["tier2"]["count"] == len(taken)


def changed_under_load(life: Life, client: Client) -> None:
    """Every function gets another setting while clients go on."""
    changed = life.account.changed(log_level="WARNING", rate=900)
    app = changed.synthesise(life.folder / "changed")
    traffic = Traffic(client, "change")
    with traffic.going() as seen:
        traffic.goes_on()
        changed.deploy(app)
        traffic.goes_on()
    assert not seen.lost
    texts = [row["content"] for row in client.export() if "parcel" in row["content"]]
    assert len(texts) == len(set(texts)) >= len(seen.stored)
    life.words_found(client, seen)
    functions = changed.client("lambda").get_function_configuration(FunctionName="strata-emulator-search")
    assert functions["Environment"]["Variables"]["STRATA_LOG_LEVEL"] == "WARNING"


def a_new_layout_under_load(life: Life, client: Client) -> None:
    """A release with another layout: refused while its index is not there, then deployed beside going clients."""
    release = Release(life.folder / "release")
    release.change("shared/adapters/opensearch/mapping.py", f"\nVERSION = {VERSION}\n", f"\nVERSION = {VERSION + 1}\n")
    app = life.synthesise("layout", sources=release.folder)
    traffic = Traffic(client, "layout")
    with traffic.going() as seen:
        traffic.goes_on()
        with pytest.raises(DeploymentFailed, match=r"infra\.index rebuild"):
            life.account.deploy(app)
        assert "ROLLBACK_COMPLETE" in state(life)
        traffic.goes_on()
        release.index("rebuild --all", life.settings())
        life.account.deploy(app)
        release.index("catch-up", life.settings())
        traffic.goes_on()
    assert not seen.lost
    life.words_found(client, seen)
    assert f"-v{VERSION}" in release.index("drop-old", life.settings())
    life.words_found(client, seen)


def state(life: Life) -> str:
    stack = life.account.environment.api_stack
    return str(life.account.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])


def left(life: Life) -> dict[str, list[str]]:
    """What of a deployment there is in the account, by kind."""
    client = life.account.client
    return {
        "functions": [each["FunctionName"] for each in client("lambda").list_functions()["Functions"]],
        "apis": [each["Name"] for each in client("apigatewayv2").get_apis()["Items"]],
        "queues": client("sqs").list_queues().get("QueueUrls", []),
        "topics": [each["TopicArn"] for each in client("sns").list_topics()["Topics"]],
        "alarms": [each["AlarmName"] for each in client("cloudwatch").describe_alarms()["MetricAlarms"]],
        "dashboards": [each["DashboardName"] for each in client("cloudwatch").list_dashboards()["DashboardEntries"]],
        "rules": [each["Name"] for each in client("events").list_rules()["Rules"]],
        "mappings": [each["UUID"] for each in client("lambda").list_event_source_mappings()["EventSourceMappings"]],
        "logs": [
            each["logGroupName"]
            for each in client("logs").describe_log_groups(logGroupNamePrefix="/strata/")["logGroups"]
        ],
        "tables": client("dynamodb").list_tables()["TableNames"],
        "domains": [each["DomainName"] for each in client("opensearch").list_domain_names()["DomainNames"]],
        "keys": [
            each["AliasName"]
            for each in client("kms").list_aliases()["Aliases"]
            if each["AliasName"].startswith("alias/strata-")
        ],
    }


DATA = {
    "logs": ["/strata/emulator/domain"],
    "tables": ["strata-emulator"],
    "domains": ["strata-emulator"],
    "keys": ["alias/strata-emulator"],
}


def taken_down_and_put_up_again(life: Life, app: Path, kept: list[dict[str, Any]]) -> None:
    """Without the API everything that holds data is there, and nothing else; with it again, so are the memories."""
    with pytest.raises(DeploymentFailed, match=r"(?i)protection"):
        life.account.destroy(app, life.account.environment.api_stack, life.account.environment.data_stack)
    life.account.destroy(app, life.account.environment.api_stack)
    assert left(life) == {kind: DATA.get(kind, []) for kind in left(life)}
    release = life.synthesise("again", sources=life.folder / "release")
    life.account.deploy(release)
    assert life.connect().export() == kept


def deleted_on_purpose(life: Life) -> None:
    """The flag has to be deployed first; then all of it goes."""
    app = life.synthesise("deletable", "-c", "delete_data=emulator", sources=life.folder / "release")
    life.account.deploy(app)
    life.account.destroy(app)
    assert left(life) == {kind: [] for kind in left(life)}
