"""What becomes of a batch when answers are lost or refused: a run and its vault's side, without a network."""

from __future__ import annotations

import io
import json
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from email.message import Message
from pathlib import Path

import pytest

from infra.consolidate import wire
from infra.consolidate.lock import Lock
from infra.consolidate.model import Question
from infra.consolidate.prompt import Turn
from infra.consolidate.report import Report
from infra.consolidate.run import Plan, Run
from infra.consolidate.vault import Batch, Debt, Vault, VaultError
from infra.consolidate.waiting import Stopped, Waiting
from shared.domain.retry import Patience
from tests.unit.scripted_rpc import Answer, Scripted

BATCH = "cb_3a80b63aa5570cb64e133b30162a6101"
CHECKOUT, COMMIT, RELEASE = "consolidate/checkout", "consolidate/commit", "consolidate/release"
Step = wire.Reply | wire.Lost


def reply(status: int = 200, headers: Mapping[str, str] | None = None, **body: object) -> wire.Reply:
    found = Message()
    for name, value in (headers or {}).items():
        found[name] = value
    return wire.Reply(status, found, json.dumps(body).encode())


def refused(status: int, code: str) -> wire.Reply:
    return reply(status, error="No.", code=code)


WAITING = {
    "raw": {"units": 1, "est_tokens": 2, "importance_equiv": 0},
    "tier2": {"count": 0, "est_tokens": 0, "importance": 0},
}
LEASED = reply(
    batch_id=BATCH,
    est_tokens=2,
    covers={"from": "2026-01-02", "to": "2026-01-03"},
    lease_expires_at="2999-01-01T00:00:00.000Z",
    memories=[{"date": "2026-01-02", "text": "moved"}],
    source_ids=["01a231d8-aa52-704f-86e3-476ab6f932a9"],
    reflection_contract={"instructions": "Write."},
)
LOST = wire.Lost("RemoteDisconnected")
NOT_SENT = wire.Lost("Connection refused", sent=False)
COMMITTED = refused(409, "already_committed")


class Scripts:
    """Answers each path with its steps, the last one again and again. `calls` are the paths in order."""

    def __init__(self, **steps: Sequence[Step]) -> None:
        self._steps: dict[str, list[Step]] = {
            "stats": [reply(reflection={"unconsolidated": WAITING, "threshold_importance": 150})],
            **{f"consolidate/{name}": list(each) for name, each in {"checkout": [LEASED], **steps}.items()},
        }
        self.calls: list[str] = []

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: Mapping[str, object] | None, timeout_s: float
    ) -> wire.Reply:
        path = url.partition("/v1/memory/")[2]
        self.calls.append(path)
        steps = self._steps[path]
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        if isinstance(step, wire.Lost):
            raise step
        return step


class Clock:
    """Sleeping takes no time but the clock's."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Written:
    """A model that always writes the same."""

    def __init__(self, text: str) -> None:
        self._text = text

    def question(self, turns: Sequence[Turn]) -> Question:
        return self

    def answer(self, within_s: float) -> str:
        return self._text

    def stop(self) -> None:
        return None


GOOD = Written('[{"text": "They moved.", "importance": 5}]')


def vault(monkeypatch: pytest.MonkeyPatch, scripts: Scripts, sleep: Callable[[float], None] | None = None) -> Vault:
    monkeypatch.setattr(wire, "send", scripts.send)
    clock = Clock()
    return Vault("http://vault.example", "mk_demo", Patience(clock, sleep or clock.sleep, random.random))


class Ran:
    """One run of one batch of raw memories. `error` is how it ended, if not well."""

    def __init__(self, folder: Path, of: Vault, model: Written = GOOD) -> None:
        out, err = io.StringIO(), io.StringIO()
        lock = Lock(folder, "http://vault.example", "mk_demo")
        lock.take(0)
        self.error: Exception | None = None
        with Waiting() as waiting:
            run = Run(of, model, Plan((1,), True, 1, None, 10), lock, waiting, Report(out, err))
            try:
                run.work()
            except (VaultError, Stopped) as error:
                self.error = error
        self.counts = run.committed, run.failed
        self.said, self.failures = out.getvalue(), err.getvalue()


@pytest.mark.parametrize("last", [LOST, refused(507, "vault_full"), refused(409, "import_open")])
def test_what_was_committed_all_the_same_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: Step
) -> None:
    scripts = Scripts(commit=[LOST, last], release=[COMMITTED])

    ran = Ran(tmp_path, vault(monkeypatch, scripts))

    assert (ran.error, ran.counts, ran.failures) == (None, (1, 0), "")
    assert ran.said.endswith("2026-01-02 to 2026-01-03: committed already\n")
    assert scripts.calls[-2:] == [COMMIT, RELEASE]


def test_what_was_committed_before_a_signal_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_: float) -> None:
        raise Stopped(signal.SIGTERM)

    scripts = Scripts(commit=[LOST], release=[COMMITTED])

    ran = Ran(tmp_path, vault(monkeypatch, scripts, stopped))

    assert isinstance(ran.error, Stopped)
    assert ran.counts == (1, 0)
    assert ran.said == f"batch {BATCH} (memories: 1, tokens: 2): committed already\n"
    assert scripts.calls == ["stats", CHECKOUT, COMMIT, RELEASE]


@pytest.mark.parametrize(
    ("release", "said"),
    [
        (reply(state="released"), "released"),
        (reply(state="expired"), "not released, its lease was over (expired)"),
        (refused(404, "not_found"), "not released, the vault knows no such batch any more"),
        (refused(409, "import_open"), "not released (import_open), its lease ends by itself"),
        (NOT_SENT, "not released, its lease ends by itself"),
    ],
)
def test_a_batch_that_failed_says_what_has_become_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: Step, said: str
) -> None:
    ran = Ran(tmp_path, vault(monkeypatch, Scripts(release=[release])), Written("no"))

    assert (ran.error, ran.counts, ran.said) == (None, (0, 1), "")
    assert f"(memories: 1, tokens: 2): {said}, the answer cannot be used after one repair: there is no" in ran.failures


def test_a_vault_that_is_gone_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = Ran(tmp_path, vault(monkeypatch, Scripts(commit=[LOST], release=[NOT_SENT])))

    assert str(ran.error) == "the vault at http://vault.example does not answer: RemoteDisconnected"
    assert (ran.counts, ran.failures) == ((0, 0), "")
    assert ran.said.endswith(": not released, its lease ends by itself\n")


@pytest.mark.parametrize("code", ["lease_expired", "batch_released", "reopened", "sources_deleted"])
def test_a_batch_that_takes_no_commit_is_not_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    scripts = Scripts(commit=[refused(409, code)])

    ran = Ran(tmp_path, vault(monkeypatch, scripts))

    assert ran.counts == (0, 1)
    assert f"not committed ({code}): No.\n" in ran.failures
    assert scripts.calls == ["stats", CHECKOUT, COMMIT]


BUSY = reply(503, {"Retry-After": "1"}, error="Busy.", code="unavailable")
LIMITED = refused(429, "rate_limited")


@pytest.mark.parametrize(
    "steps", [[LOST], [NOT_SENT] * 5, [BUSY] * 5, [LIMITED] * 5, [NOT_SENT, BUSY, LOST], [reply(504), BUSY]]
)
def test_a_checkout_is_repeated_while_it_was_not_carried_out_or_once(
    monkeypatch: pytest.MonkeyPatch, steps: list[Step]
) -> None:
    scripts = Scripts(checkout=[*steps, LEASED])

    assert isinstance(vault(monkeypatch, scripts).checkout(1, None), Batch)
    assert len(scripts.calls) == len(steps) + 1


@pytest.mark.parametrize("steps", [[LOST, LOST], [reply(504), LOST], [BUSY, reply(500), BUSY, reply(502)]])
def test_a_checkout_that_was_lost_twice_leases_no_third_batch(
    monkeypatch: pytest.MonkeyPatch, steps: list[Step]
) -> None:
    scripts = Scripts(checkout=[*steps, LEASED])

    with pytest.raises(VaultError, match="; what it may have leased is free again later"):
        vault(monkeypatch, scripts).checkout(1, None)
    assert len(scripts.calls) == len(steps)


def test_what_leases_nothing_is_repeated_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = Scripts(commit=[LOST] * 5 + [reply(created=[{}], sources_consolidated=3, already_committed=True)])
    found = vault(monkeypatch, scripts)

    assert found.commit(BATCH, [("They moved.", 5)]).sources == 3
    assert isinstance(found.debt(), Debt)
    assert scripts.calls == [*[COMMIT] * 6, "stats"]


@pytest.mark.loopback
def test_only_what_nobody_took_was_surely_not_sent() -> None:
    with Scripted().listening() as scripted:
        scripted.script = lambda _: Answer(None)
        with pytest.raises(wire.Lost) as lost:
            wire.send("POST", scripted.url, {}, {}, 10)
    with pytest.raises(wire.Lost) as nobody:
        wire.send("POST", scripted.url, {}, {}, 10)

    assert (lost.value.sent, nobody.value.sent) == (True, False)
