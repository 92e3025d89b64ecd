"""What a function writes to its standard output: every metric there is, one line a call, and nothing of anybody's."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.indexer.handler import handler as indexer
from infra.local.gateway import Gateway
from shared import bootstrap
from shared.adapters.dynamodb.layout import SCHEMA
from shared.adapters.local_embedder.hashing import HashingEmbedder
from shared.adapters.powertools.telemetry import ROOT, TALKATIVE, PowertoolsTelemetry
from shared.adapters.system.telemetry import Silent
from shared.bootstrap import Aws
from shared.domain.errors import StaleEpoch, StrataError, Unavailable
from shared.ports.telemetry import METRICS, RETRIEVALS
from shared.settings import SettingsError, load
from tests.api.client import Answer, Client
from tests.dynamodb.table import MemoryTable
from tests.unit.usecases.fakes import WordIndex

REPOSITORY = Path(__file__).resolve().parents[2]
SERVICE = "testing"
ON_AWS = {
    "STRATA_BACKEND": "aws",
    "STRATA_TABLE": "memories",
    "STRATA_SEARCH_URL": "http://127.0.0.1:1",
    "STRATA_EMBEDDER": "hashed-64",
    "STRATA_AUTO_PROVISION_KEYS": "1",
    "STRATA_LOG_LEVEL": "DEBUG",
}
NOTED = {"STRATA_SERVICE": SERVICE}

TEXT, REFLECTION = "marker-heron-on-the-weir", "marker-it-was-a-heron"
QUERY, SESSION, KEY = "marker-heron-query", "marker-session", "mk_marker-key-of-somebody"
NAME, LINE = "marker-idempotency-key", "marker-uploaded-line"
INGEST, SEARCH = "/v1/memory/ingest", "/v1/memory/search"
CHECKOUT, COMMIT = "/v1/memory/consolidate/checkout", "/v1/memory/consolidate/commit"
LAG_S = 90


class Everything(logging.Handler):
    """What anybody logs, at any level, with what exceptions say."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


@pytest.fixture
def root_log(capsys: pytest.CaptureFixture[str]) -> Iterator[Everything]:
    """The root logger open to all; every logger is afterwards as it was."""
    root, seen = logging.getLogger(), Everything()
    names = ("", ROOT, SERVICE, *TALKATIVE)
    before = {name: dict(logging.getLogger(name).__dict__) for name in names}
    handlers = {name: list(logging.getLogger(name).handlers) for name in names}
    root.addHandler(seen)
    root.setLevel(logging.DEBUG)
    yield seen
    for name in names:
        logger = logging.getLogger(name)
        logger.setLevel(before[name]["level"])
        logger.__dict__.clear()
        logger.__dict__.update(before[name], handlers=handlers[name])


class Deployed:
    """The back end of functions over a table in memory, its stream delivered when it is asked for."""

    def __init__(self) -> None:
        self.table = MemoryTable()
        self.table.create_table(TableName="memories", **SCHEMA)
        model = HashingEmbedder()
        self.backend = Aws(load(ON_AWS | NOTED), connect=lambda service: self.table, embedders={model.name: model})
        self.index = WordIndex(self.backend.store)
        self.backend.services = replace(self.backend.services, index=self.index)
        self.services = self.backend.services
        self.client = Client(Gateway(self.services), self.services, KEY)
        self.made: list[tuple[str, int]] = []
        self._position = 0

    def call(self, route: str, method: str, path: str, body: object = None, **more: Any) -> Answer:
        answer = self.client.call(method, path, body, **more)
        self.made.append((route, answer.status))
        return answer

    def records(self) -> list[dict[str, Any]]:
        """What was written since the last time, as the event source hands it over."""
        streams = self.table.streams()
        (stream,) = streams.list_streams(TableName="memories")["Streams"]
        (shard,) = streams.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]["Shards"]
        place = {"StreamArn": stream["StreamArn"], "ShardId": shard["ShardId"]}
        start = streams.get_shard_iterator(**place, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
        found: list[dict[str, Any]] = streams.get_records(ShardIterator=start)["Records"]
        fresh, self._position = found[self._position :], len(found)
        moment = self.services.clock.now_ms() / 1000 - LAG_S
        return [{**each, "dynamodb": {**each["dynamodb"], "ApproximateCreationDateTime": moment}} for each in fresh]

    def deliver(self) -> None:
        context = SimpleNamespace(
            function_name="indexer",
            aws_request_id="00000000-0000-4000-8000-000000000007",
            get_remaining_time_in_millis=lambda: 100_000,
        )
        assert indexer({"Records": self.records()}, context) == {"batchItemFailures": []}


Deploy = Callable[[], Deployed]


@pytest.fixture
def deploy(root_log: Everything) -> Iterator[Deploy]:
    """To be called by the test itself, whose standard output is another than that of its fixtures."""

    def make() -> Deployed:
        made = Deployed()
        bootstrap.activate(made.backend)
        return made

    yield make
    bootstrap.activate(None)


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def run(deployed: Deployed, patch: pytest.MonkeyPatch) -> None:
    """What succeeds, what is refused, and every kind of failure."""
    call, index = deployed.call, deployed.index
    named = {"X-Session-ID": SESSION, "Idempotency-Key": NAME}
    messages = {"messages": [{"role": "user", "content": TEXT}, {"role": "user", "content": f"{TEXT} again"}]}
    assert call("ingest", "POST", INGEST, messages, headers=named).status == 202
    assert call("ingest", "POST", INGEST, messages, headers=named).status == 202
    line = json.dumps({"role": "user", "content": LINE}).encode()
    assert call("upload", "POST", "/v1/memory/upload", line, content_type="application/x-ndjson").status == 200
    deployed.deliver()
    query = {"query": f"{QUERY} {TEXT}"}
    assert len(call("search", "POST", SEARCH, query, headers=named).json["memories"]) == 3
    asked = {"messages": [{"role": "user", "content": QUERY}]}
    assert call("prepare", "POST", "/v1/memory/prepare", asked).status == 200
    dates = {"from": "2020-01-01", "to": "2099-01-01"}
    assert call("date_search", "POST", "/v1/memory/date-search", dates).status == 200
    batch = call("checkout", "POST", CHECKOUT, {"tier": 1}).json["batch_id"]
    entries = {"batch_id": batch, "entries": [{"text": REFLECTION, "importance": 5}]}
    assert call("commit", "POST", COMMIT, entries).status == 200
    assert call("commit", "POST", COMMIT, entries).json["already_committed"] is True
    assert call("release", "POST", "/v1/memory/consolidate/release", {"batch_id": batch}).status == 409
    assert call("ingest", "POST", INGEST, f'{{"messages": [{TEXT}'.encode()).status == 400
    assert call("ingest", "POST", INGEST, {TEXT: 1, "messages": []}).status == 400
    assert call("keys_delete", "DELETE", f"/v1/keys/{QUERY}").status == 404
    assert call("export", "GET", f"/v1/memory/export?cursor={QUERY}").status == 400
    deployed.client.key = f"{KEY}?{QUERY}"
    call("stats", "GET", "/v1/memory/stats")
    deployed.client.key = KEY
    with patch.context() as one:
        one.setattr(index, "search", raising(RuntimeError(f"cannot read {TEXT}")))
        assert call("search", "POST", SEARCH, query).status == 500
    with patch.context() as one:
        one.setattr(index, "search", raising(Unavailable("down", code="search_unavailable", retry_after=1)))
        assert call("search", "POST", SEARCH, query).status == 503
    with patch.context() as one:
        model = deployed.services.embedders["hashed-64"]
        one.setattr(model, "embed_query", raising(Unavailable("down", code="embedding_unavailable", retry_after=1)))
        assert call("search", "POST", SEARCH, {"query": "nothing like it"}).json["code"] == "embedding_unavailable"
    with patch.context() as one:
        denied = ClientError({"Error": {"Code": "AccessDeniedException", "Message": TEXT}}, "Query")
        one.setattr(deployed.table, "before", raising(denied))
        assert call("ingest", "POST", INGEST, messages).json["code"] == "storage_unavailable"
    with patch.context() as one:
        one.setattr(type(deployed.services.store), "checkout", raising(StaleEpoch("emptied")))
        assert call("checkout", "POST", CHECKOUT, {"tier": 1}).json["code"] == "busy"
    with patch.context() as one:
        assert call("ingest", "POST", INGEST, messages).status == 202
        one.setattr(index, "put_words", raising(ValueError(f"cannot index {TEXT}")))
        deployed.deliver()
    sweep_all(deployed, patch)


def sweep_all(deployed: Deployed, patch: pytest.MonkeyPatch) -> None:
    with patch.context() as one:
        model = deployed.services.embedders["hashed-64"]
        one.setattr(model, "embed_documents", raising(RuntimeError(f"cannot embed {TEXT}")))
        assert deployed.call("ingest", "POST", INGEST, {"messages": [{"role": "user", "content": TEXT}]}).status == 202
        deployed.deliver()
        assert indexer({"sweep": True}) == {"batchItemFailures": []}
    with patch.context() as one:
        one.setattr(deployed.index, "waiting", raising(RuntimeError(f"cannot list {TEXT}")))
        with pytest.raises(StrataError) as failed:
            indexer({"sweep": True})
        # The platform writes it into the log.
        assert str(failed.value) == "The indexer failed: RuntimeError."


@dataclass(frozen=True)
class Written:
    """The lines of the standard output: those of metrics, those of calls, and the others."""

    metrics: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    others: list[dict[str, Any]]

    def sums(self) -> Mapping[str, float]:
        found: Counter[str] = Counter()
        for line in self.metrics:
            for each in defined(line):
                found[each["Name"]] += sum(line[each["Name"]])
        return found


def defined(line: Mapping[str, Any]) -> list[dict[str, str]]:
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Strata"
    assert directive["Dimensions"] == [["service"]]
    assert line["service"] == SERVICE
    metrics: list[dict[str, str]] = directive["Metrics"]
    return metrics


def written(output: str) -> Written:
    lines: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
    metrics = [line for line in lines if "_aws" in line]
    calls = [line for line in lines if line.get("message") == "call"]
    return Written(metrics, calls, [line for line in lines if line not in metrics and line not in calls])


def test_every_metric_is_emitted_and_no_other(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed = deploy()
    run(deployed, monkeypatch)
    found = written(capsys.readouterr().out)
    units = {each["Name"]: each["Unit"] for line in found.metrics for each in defined(line)}
    assert units == {name: metric.unit for name, metric in METRICS.items()}
    sums = found.sums()
    lag = sums["IndexLag"]
    assert 3 * LAG_S <= lag < 3 * LAG_S + 30
    # Stored: two messages (once, though sent twice), a line, two more, one. Given up: the last two and the reflection.
    assert {name: sums[name] for name in sums if name != "IndexLag"} == {
        "ServerErrors": 1,
        "SearchUnavailable": 1,
        "EmbeddingUnavailable": 1,
        "StorageUnavailable": 1,
        "Busy": 1,
        "Conflicts": 1,
        "CommittedBatches": 1,
        "ConsolidatedMemories": 3,
        "IngestedMemories": 6,
        "Retrievals": 3,
        "DeadLetters": 3,
        "VaultsWaiting": 1,
    }
    assert len(found.metrics) <= len(found.calls)


def test_every_call_is_one_line_that_says_how_it_went(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed = deploy()
    run(deployed, monkeypatch)
    found = written(capsys.readouterr().out)
    served = [line for line in found.calls if line["route"] != "indexer"]
    assert [(line["route"], line["status"]) for line in served] == deployed.made
    assert all(
        line["duration_ms"] >= 0 and line["request_id"] and line["service"] == SERVICE for line in found.calls[:3]
    )
    assert {line["code"] for line in served if line["status"] >= 400} >= {"internal", "busy", "already_committed"}
    streamed = [line for line in found.calls if line["route"] == "indexer"]
    assert streamed[0]["function_name"] == "indexer"
    assert streamed[0]["function_request_id"].endswith("7")
    assert [line.get("given_up") for line in streamed] == [0, 3, 0, None, None]
    assert streamed[-1]["code"] == "internal"
    (unexpected,) = [line for line in found.others if "RuntimeError" in line["message"] and line["route"] == "search"]
    (answered,) = [line for line in served if line["status"] == 500]
    assert unexpected["request_id"] == answered["request_id"]
    assert unexpected["level"] == "ERROR"


def test_no_line_holds_a_text_a_key_a_query_or_a_session(
    deploy: Callable[[], Deployed],
    root_log: Everything,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    deployed = deploy()
    run(deployed, monkeypatch)
    captured = capsys.readouterr()
    everything = captured.out + captured.err + "\n".join(root_log.lines)
    assert len(everything) > 5_000
    assert [line for line in everything.splitlines() if "marker" in line] == []


def test_what_an_exception_says_stays_out_of_the_log(root_log: Everything, capsys: pytest.CaptureFixture[str]) -> None:
    PowertoolsTelemetry(SERVICE, "DEBUG")
    log = logging.getLogger("strata.somewhere")
    try:
        raise ValueError(TEXT)
    except ValueError:
        log.exception("it failed")
    (line,) = written(capsys.readouterr().out).others
    assert line["exception_name"] == "ValueError"
    assert "test_what_an_exception_says_stays_out_of_the_log" in line["places"]
    assert TEXT not in json.dumps(line)


def test_libraries_that_log_whole_requests_are_kept_from_it(root_log: Everything) -> None:
    PowertoolsTelemetry(SERVICE, "DEBUG")
    logging.getLogger("botocore.endpoint").debug("Making request with %s", TEXT)
    logging.getLogger("urllib3.connectionpool").debug("POST %s", QUERY)
    logging.getLogger("botocore").warning("said")
    assert root_log.lines[-1] == "said"
    assert not any("marker" in line for line in root_log.lines)


def test_levels_below_the_chosen_one_are_not_written(root_log: Everything, capsys: pytest.CaptureFixture[str]) -> None:
    telemetry = PowertoolsTelemetry(SERVICE, "WARNING")
    with telemetry.invocation("search", "r", None):
        telemetry.record(RETRIEVALS)
    found = written(capsys.readouterr().out)
    assert found.calls == []
    assert found.sums() == {"Retrievals": 1}


def test_an_invocation_that_raises_still_says_what_it_knows(
    root_log: Everything, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry = PowertoolsTelemetry(SERVICE, "INFO")

    def serve() -> None:
        with telemetry.invocation("search", "r-1", None) as facts:
            facts["status"] = 200
            for _ in range(101):
                telemetry.record(RETRIEVALS)
            raise KeyError

    with pytest.raises(KeyError):
        serve()
    telemetry.record(RETRIEVALS, 5)
    found = written(capsys.readouterr().out)
    (line,) = found.calls
    assert (line["route"], line["request_id"], line["status"]) == ("search", "r-1", 200)
    # One line holds 100 values of a metric; the last one was recorded outside.
    assert [sum(each["Retrievals"]) for each in found.metrics] == [100, 1, 5]


def test_without_a_name_nothing_is_said() -> None:
    table = MemoryTable()
    assert isinstance(Aws(load(ON_AWS), connect=lambda service: table).services.telemetry, Silent)


@pytest.mark.parametrize("bad", ["", "a b", "x" * 65, "naïve"])
def test_a_name_is_checked(bad: str) -> None:
    with pytest.raises(SettingsError, match="STRATA_SERVICE"):
        load({"STRATA_SERVICE": bad})
    assert load({"STRATA_SERVICE": "prod-2"}).service == "prod-2"


def test_a_server_that_cannot_be_put_together_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from functions.search.handler import handler

    monkeypatch.setattr(handler, "_services", raising(ValueError(TEXT)))
    reply = handler({"requestContext": {"requestId": "r-9"}})
    assert reply["statusCode"] == 500
    assert TEXT not in reply["body"]
    assert "r-9" in reply["body"]


def test_a_function_that_is_watched_loads_nothing_heavy() -> None:
    program = (
        "import functions.search.handler, json, sys; before = 'aws_lambda_powertools' in sys.modules;"
        " from shared.bootstrap import services; services();"
        " print(json.dumps([before, [name for name in sys.modules if '.' not in name]]))"
    )
    environment = ON_AWS | NOTED | {"AWS_DEFAULT_REGION": "eu-central-1"}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    )
    before, found = json.loads(ran.stdout)
    assert not before
    assert "aws_lambda_powertools" in found
    assert set(found) & {"numpy", "opensearchpy", "boto3", "sqlite3", "Stemmer", "aws_xray_sdk"} == set()
