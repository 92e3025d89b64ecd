"""One run: batch after batch from checkout to commit, while the vault asks for it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from infra.consolidate.answer import Entries, Unusable, read
from infra.consolidate.lock import Lock
from infra.consolidate.model import Model, ModelError
from infra.consolidate.prompt import Turn, repair, task
from infra.consolidate.report import Report, seconds_since
from infra.consolidate.vault import (
    ALREADY_COMMITTED,
    PATIENCE_S,
    RELEASED,
    UNKNOWN_STATUS,
    Batch,
    NothingFree,
    Refused,
    Vault,
    VaultError,
)
from infra.consolidate.waiting import Stopped, Waiting

FAILURES_IN_A_ROW = 2
RENEW_AT = 2 / 3
LOOK_EVERY_S = 1.0
# Of what must not keep the run waiting for long.
BRIEF_S = 5.0
COMMITTED_ALREADY = "committed already"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run may do. `timeout_s` is for one answer of the model."""

    tiers: tuple[int, ...]
    everything: bool
    batches: int
    max_tokens: int | None
    timeout_s: float


class BatchFailed(Exception):
    """This batch was not consolidated. `last`: nor would the next one be."""

    def __init__(self, problem: str, last: bool = False) -> None:
        super().__init__(problem)
        self.last = last


class Run:
    """`committed` and `failed` count batches."""

    def __init__(self, vault: Vault, model: Model, plan: Plan, lock: Lock, waiting: Waiting, report: Report) -> None:
        self._vault = vault
        self._model = model
        self._plan = plan
        self._lock = lock
        self._waiting = waiting
        self._report = report
        self._tokens = 0
        self._left = 0
        self.committed = 0
        self.failed = 0

    def work(self) -> None:
        """Raises `VaultError`, `Busy` when the lock was lost, and `Stopped`; the open batch is given back then."""
        in_a_row = 0
        for tier in self._plan.tiers:
            while self.committed + self.failed < self._plan.batches:
                debt = self._vault.debt()
                if not debt.due(tier, self._plan.everything):
                    break
                self._left = sum(debt.pools[each].tokens for each in self._plan.tiers)
                try:
                    if not self._batch(tier):
                        break
                    in_a_row = 0
                except BatchFailed as failed:
                    self.failed += 1
                    in_a_row += 1
                    self._report.failure(f"tier {tier}, failed: {failed}")
                    if failed.last or in_a_row == FAILURES_IN_A_ROW:
                        why = "the next batch would fail as well" if failed.last else f"{in_a_row} failures in a row"
                        self._report.failure(f"stopped: {why}")
                        return

    def _batch(self, tier: int) -> bool:
        """Whether there was something to do."""
        began = time.monotonic()
        self._waiting.check()
        batch = self._vault.checkout(tier, self._plan.max_tokens)
        if isinstance(batch, NothingFree):
            until = f", the first of which ends at {batch.next_expiry}" if batch.next_expiry else ""
            self._report.line(f"tier {tier}: nothing is free; {batch.leased:,} memories are in open batches{until}")
            return False
        name = f"batch {batch.id} (memories: {len(batch.memories):,}, tokens: {batch.tokens:,})"
        how = self._consolidated(batch, name, began)
        self.committed += 1
        self._tokens += batch.tokens
        self._report.line(f"tier {tier}, {name}, {batch.period[0]} to {batch.period[1]}: {how}")
        return True

    def _consolidated(self, batch: Batch, name: str, began: float) -> str:
        """How the batch was committed. Whatever goes wrong, it is given back.

        Raises `BatchFailed` for what is wrong with it alone.
        """
        try:
            entries = self._written(batch)
            self._lock.beat()
            done = self._vault.commit(batch.id, entries)
        except (Unusable, ModelError, VaultError) as error:
            if isinstance(error, Refused) and error.gone:
                raise BatchFailed(f"{name}: not committed ({error.code}): {error}") from error
            silent = isinstance(error, VaultError) and not isinstance(error, Refused)
            given = self._give_back(batch, BRIEF_S if silent else PATIENCE_S)
            # The answer of a commit can be lost again and again, and the vault be there.
            if given == COMMITTED_ALREADY:
                return given
            if silent:
                self._report.line(f"{name}: {given}")
                raise
            what = "the vault takes no such entries: " if isinstance(error, Refused) else ""
            what = "the answer cannot be used after one repair: " if isinstance(error, Unusable) else what
            last = isinstance(error, ModelError) and error.final
            raise BatchFailed(f"{name}: {given}, {what}{error}", last) from error
        except BaseException:
            given = self._give_back(batch, BRIEF_S)
            self.committed += given == COMMITTED_ALREADY
            self._report.line(f"{name}: {given}")
            raise
        again = " (by an earlier try)" if done.again else ""
        return f"committed in {seconds_since(began)}, sources: {done.sources:,}, reflections: {done.created}{again}"

    def _give_back(self, batch: Batch, within_s: float) -> str:
        """What has become of the batch."""
        try:
            state = self._vault.release(batch.id, within_s)
        except Refused as refused:
            if refused.code == ALREADY_COMMITTED:
                return COMMITTED_ALREADY
            if refused.status == UNKNOWN_STATUS:
                return "not released, the vault knows no such batch any more"
            return f"not released ({refused.code}), its lease ends by itself"
        except (VaultError, Stopped):
            return "not released, its lease ends by itself"
        return RELEASED if state == RELEASED else f"not released, its lease was over ({state})"

    def _written(self, batch: Batch) -> Entries:
        """What the model makes of the batch, corrected once where it has to be. Raises `Unusable` or `ModelError`."""
        lease = _Lease(self._vault, batch, self._report)
        turns = [task(batch.instructions, batch.memories)]
        answer = self._ask(turns, lease)
        try:
            return read(answer, batch.hidden)
        except Unusable as unusable:
            turns += repair(answer, unusable.problems)
        return read(self._ask(turns, lease), batch.hidden)

    def _ask(self, turns: Sequence[Turn], lease: _Lease) -> str:
        began = time.monotonic()
        timeout_s = self._plan.timeout_s
        question = self._model.question(turns)

        def meanwhile() -> float:
            self._lock.beat()
            self._report.progress(self._tokens, self._left, f"the model writes ({seconds_since(began)})")
            return min(LOOK_EVERY_S, lease.keep())

        try:
            # The model gets a little longer than it is waited for, so that it is always this side that gives up.
            return self._waiting.result(lambda: question.answer(timeout_s + BRIEF_S), timeout_s, meanwhile)
        except TimeoutError:
            question.stop()
            raise ModelError(f"the model did not answer within {timeout_s:g} s (--timeout)") from None
        except BaseException:
            question.stop()
            raise


class _Lease:
    """Renewed once, when two thirds of it are over and the model still writes."""

    def __init__(self, vault: Vault, batch: Batch, report: Report) -> None:
        self._vault = vault
        self._batch = batch
        self._report = report
        self._renewed = False

    def keep(self) -> float:
        """Renew if it is time; the seconds until it should be asked again."""
        if self._renewed:
            return LOOK_EVERY_S
        left = self._batch.ends - (1 - RENEW_AT) * self._batch.lease_s - time.monotonic()
        if left > 0:
            return left
        self._renewed = True
        try:
            lasts_s = self._vault.renew(self._batch.id, BRIEF_S)
            self._report.line(f"batch {self._batch.id}: the model is slow; lease renewed for {lasts_s:.0f} s")
        except VaultError as error:
            self._report.failure(
                f"batch {self._batch.id}: the model is slow, and the lease could not be renewed: {error}"
            )
        return LOOK_EVERY_S
