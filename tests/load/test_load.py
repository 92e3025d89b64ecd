"""The parts of the load test that need no server, and one short run that does."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import ClassVar

import pytest

from tests.e2e.server import Server
from tests.load import page
from tests.load.__main__ import arguments, main, run
from tests.load.client import NO_ANSWER, Client, NotAllowed, Sample, check_address
from tests.load.known import Known
from tests.load.promises import Verdict
from tests.load.report import Run, percentile, section, server_errors
from tests.load.script import MIX, consolidation, steps, text, vocabulary

HELD = Verdict(2, 1, ())


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8787", "http://127.1.2.3/stage", "http://[::1]:80", "http://localhost"]
)
def test_this_machine_may_be_put_under_load(url: str) -> None:
    check_address(url, owned=False)


@pytest.mark.parametrize("url", ["https://example.com", "http://10.0.0.1:8787", "http://localhost.example.com"])
def test_another_machine_only_by_who_owns_it(url: str) -> None:
    with pytest.raises(NotAllowed, match="--i-own-this-address"):
        check_address(url, owned=False)
    check_address(url, owned=True)


@pytest.mark.parametrize("url", ["127.0.0.1:8787", "ftp://127.0.0.1", "http://"])
def test_what_is_no_address_is_refused_even_to_its_owner(url: str) -> None:
    with pytest.raises(NotAllowed, match="no address"):
        check_address(url, owned=True)


def test_a_foreign_address_ends_the_program_before_anything_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", "http://192.0.2.1:8787"]) == 2
    assert "192.0.2.1 is not this machine" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--seconds", "601"], ["--clients", "65"], ["--steps", "0"], ["--rate", "nan"]])
def test_a_run_without_bounds_is_refused(given: list[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(given)


def test_a_script_is_decided_by_its_seed() -> None:
    first, again = (list(islice(steps(7, 3, 4), 300)) for _ in range(2))
    assert first == again
    assert first != list(islice(steps(8, 3, 4), 300))
    assert not {step.name for step in first} & {step.name for step in islice(steps(7, 4, 4), 300)}
    assert text(random.Random(1), "a") == text(random.Random(1), "a")


def test_a_script_keeps_to_its_mix() -> None:
    drawn = Counter(step.operation for step in islice(steps(1, 1, 4), 20_000))
    assert sum(MIX.values()) == 100
    for operation, share in MIX.items():
        assert drawn[operation] / 200 == pytest.approx(share, abs=1.0)
    assert {step.vault for step in islice(steps(1, 1, 4), 100)} == {0, 1, 2, 3}
    ends = Counter(consolidation(random.Random(number)).end for number in range(500))
    assert ends.keys() == {"commit", "renew", "release", "leave"}


def test_the_vocabulary_is_the_same_everywhere() -> None:
    assert len(set(vocabulary(500))) == 500
    assert vocabulary(500) == vocabulary(600)[:500]


@pytest.mark.parametrize(("share", "expected"), [(50, 2), (90, 4), (25, 1), (26, 2), (100, 4), (0, 1)])
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    assert percentile([3, 1, 4, 2], share) == expected


def sample(operation: str, intended: float, sent: float, ended: float, status: int = 200, code: str = "") -> Sample:
    return Sample(operation, intended, sent, ended, status, code, ("busy",) if operation == "commit" else ())


def test_latencies_count_from_the_intended_beginning() -> None:
    samples = (
        sample("search", 0.0, 2.0, 2.5),
        sample("commit", 1.0, 1.0, 1.1, 409, "sources_deleted"),
        sample("check", 0.0, 0.0, 9.0),
    )
    shown = section(Run("Open loop", samples, 10.0, 5, 4, HELD))
    lines = [line.strip("| ").split(" | ") for line in shown.splitlines() if line.startswith("| ")]
    assert lines[1] == ["commit", "1", "0.1", "100", "100", "100", "100", "100", "1 busy", "1 sources_deleted"]
    assert lines[2][:8] == ["search", "1", "0.1", "2,500", "2,500", "2,500", "2,500", "500"]
    assert lines[3][:2] == ["**all**", "2"]
    assert "5 steps were planned, 1 of them did not begin in time" in shown
    assert "2 rows and 1 batches" in shown


def test_broken_promises_are_named() -> None:
    shown = section(Run("Closed loop", (), 1.0, 0, 0, Verdict(1, 1, ("vault 0: a row was lost",))))
    assert "* vault 0: a row was lost" in shown


def test_replays_must_tell_the_first_result() -> None:
    vault = Known("mk_x")
    vault.leased("cb_1", 1, ["a"])
    vault.committed("cb_1", {"already_committed": False}, ["r"])
    vault.committed("cb_1", {"already_committed": True}, ["r"])
    assert vault.broken == []
    vault.committed("cb_1", {"already_committed": True}, ["other"])
    vault.committed("cb_1", {"already_committed": False}, ["other"])
    assert len(vault.broken) == 2


def test_a_row_may_be_shown_until_its_deletion_is_answered() -> None:
    vault = Known("mk_x")
    vault.stored(["a", "b"], ["wa", "wb"])
    vault.was_deleted(["a"], now=5.0)
    vault.check_live(["a", "b"], asked=4.0)
    assert vault.broken == []
    vault.check_live(["a", "b"], asked=6.0)
    assert vault.broken == ["a was shown after its deletion"]
    assert {vault.pick_row(random.Random(number)) for number in range(9)} <= {("b", "wb"), None}


def test_a_part_of_the_page_replaces_only_itself() -> None:
    first = page.with_part("", "limits", "## Limits\n\nbygone")
    both = page.with_part(first, "embedded", "## Embedded")
    assert both.index("## Embedded") < both.index("## Limits")
    new = page.with_part(both, "limits", "## Limits\n\nnew")
    assert "bygone" not in new
    assert "## Embedded" in new
    assert page.with_part(new, "limits", "## Limits\n\nnew") == new
    with pytest.raises(ValueError, match="no part"):
        page.with_part(new, "other", "")


Reply = tuple[int, dict[str, str], dict[str, str]]
"""Status, headers and body."""


class Scripted(BaseHTTPRequestHandler):
    """Answers with what the test put down, one after the other."""

    protocol_version = "HTTP/1.1"
    answers: ClassVar[list[Reply]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, headers, body = self.answers.pop(0)
        raw = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(raw))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *arguments: object) -> None:
        return None


@pytest.fixture
def scripted() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
    Scripted.answers = []


BUSY: Reply = (503, {"Retry-After": "0"}, {"error": "", "code": "busy"})
UNCLEAR: Reply = (503, {"Retry-After": "0"}, {"error": "", "code": "storage_unavailable"})
DONE: Reply = (200, {}, {"id": "x"})


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("answers", "again", "status", "refused"),
    [
        ([BUSY, BUSY, DONE], True, 200, ("busy", "busy")),
        ([BUSY, DONE], False, 200, ("busy",)),
        ([UNCLEAR, DONE], True, 200, ("storage_unavailable",)),
        ([UNCLEAR], False, 503, ()),
        ([BUSY] * 5, True, 503, ("busy",) * 4),
        ([(429, {"Retry-After": "600"}, {"code": "rate_limited"})], True, 429, ()),
        ([(409, {}, {"code": "lease_expired"})], True, 409, ()),
    ],
)
def test_a_refusal_is_waited_for_as_it_asks(
    scripted: str,
    answers: list[Reply],
    again: bool,
    status: int,
    refused: tuple[str, ...],
) -> None:
    Scripted.answers = list(answers)
    client = Client(scripted, 1, time.monotonic() + 60)
    answer = client.call("search", "POST", "/v1/memory/search", "mk_x", {}, again=again)
    client.close()
    (taken,) = client.samples
    assert (answer.status, taken.status, taken.refused) == (status, status, refused)
    assert Scripted.answers == []


@pytest.mark.loopback
def test_a_server_that_is_not_there_is_no_answer() -> None:
    client = Client("http://127.0.0.1:9", 1, time.monotonic())
    answer = client.call("search", "POST", "/v1/memory/search", "mk_x", {})
    assert (answer.status, answer.code) == (0, NO_ANSWER)
    assert server_errors(client.samples) == client.samples


@pytest.mark.slow
@pytest.mark.loopback
@pytest.mark.parametrize("rate", [None, 40.0])
def test_under_load_nothing_fails_and_every_promise_holds(rate: float | None, tmp_path: Path) -> None:
    # Steps bound it, so that a slow machine does the same things.
    chosen = arguments(["--seconds", "60", "--steps", "200", "--clients", "6", "--vaults", "2", "--seed", "11"])
    with Server(tmp_path, {"STRATA_EMBEDDER": "hashed-64"}) as server:
        done = run(server.url, chosen, "smoke", rate)
    assert done.verdict.broken == ()
    assert server_errors(done.samples) == []
    assert {each.code for each in done.samples if not each.ok} <= {"sources_deleted"}
    assert done.verdict.rows > 0
    assert done.verdict.batches > 0
    assert {"search", "ingest", "checkout", "commit"} <= {each.operation for each in done.samples if each.ok}
