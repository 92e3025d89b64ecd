"""Work off a vault's reflection debt with a model of your own.

It checks out a batch of memories, gives the vault's instructions and the batch to the model, checks what comes back,
lets the model correct it once, and commits. What cannot be committed is released: nothing is lost or written then.
The key of the vault comes from STRATA_KEY or --key-file, that of the model from STRATA_MODEL_KEY or --model-key-file.

Ends with
  0    done, or nothing to do
  1    a batch failed
  2    wrong usage
  3    the vault cannot be reached, refuses the key or does not answer as a vault does
  4    locked by another run, or cooling down after one: it says which
  130  stopped by SIGINT, 143 by SIGTERM; the open batch is released, or it says what else has become of it
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from infra.consolidate.lock import Busy, Lock
from infra.consolidate.options import Options, WrongUsage, parse
from infra.consolidate.report import Report
from infra.consolidate.run import Run
from infra.consolidate.vault import Debt, Vault, VaultError
from infra.consolidate.waiting import Stopped, Waiting
from shared.domain.retry import Patience

DONE, BATCH_FAILED, WRONG_USAGE, NO_VAULT, NOT_NOW = 0, 1, 2, 3, 4
STOPPED = 128
NAMES = {1: "raw memories", 2: "reflections"}


def main(arguments: Sequence[str]) -> int:
    report = Report(sys.stdout, sys.stderr)
    with ExitStack() as stack:
        try:
            options = parse(arguments, __doc__ or "")
            if options.log is not None:
                try:
                    log = stack.enter_context(options.log.open("a", encoding="utf-8"))
                except OSError as error:
                    raise WrongUsage(f"--log: {options.log} cannot be written ({error.strerror})") from None
                report = Report(sys.stdout, sys.stderr, log)
            return _run(options, report)
        except WrongUsage as wrong:
            code, said = WRONG_USAGE, str(wrong)
        except VaultError as error:
            code, said = NO_VAULT, f"stopped: {error}"
        except Busy as busy:
            # To another run it is no failure: where only failures are read, as from cron, it is not said.
            report.line(str(busy))
            return NOT_NOW
        except Stopped as stopped:
            code, said = STOPPED + stopped.number, f"stopped by {stopped}"
        report.failure(said)
    return code


def _run(options: Options, report: Report) -> int:
    with Waiting() as waiting:
        vault = Vault(options.url, options.key, Patience(time.monotonic, waiting.sleep, random.random))
        if options.model is None or options.dry_run:
            for line in _shown(vault.debt(), options):
                report.line(line, logged=False)
            return DONE
        lock = Lock(options.state, options.url, options.key)
        try:
            lock.take(options.cooldown_s)
        except OSError as error:
            raise WrongUsage(f"--state: {lock.path} cannot be kept ({error.strerror})") from None
        run = Run(vault, options.model, options.plan, lock, waiting, report)
        completed = False
        try:
            run.work()
            completed = run.committed > 0 and run.failed == 0
        finally:
            lock.leave(completed)
        for line in _shown(vault.debt(), options):
            report.line(line, logged=False)
        report.line(f"batches committed: {run.committed}, failed: {run.failed}")
        return BATCH_FAILED if run.failed else DONE


def _shown(debt: Debt, options: Options) -> list[str]:
    """What waits, tier by tier, and whether a run would take it."""
    lines = []
    for tier, pool in debt.pools.items():
        if tier not in options.plan.tiers:
            verdict = "left alone (--tier)"
        elif debt.due(tier, options.plan.everything):
            verdict = "to be consolidated"
        else:
            verdict = f"left alone below {debt.threshold} (--all takes it)" if pool.units else "nothing to do"
        lines.append(
            f"tier {tier}: {pool.units:,} {NAMES[tier]} wait, {pool.tokens:,} tokens, importance {pool.importance:,}: "
            f"{verdict}"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
