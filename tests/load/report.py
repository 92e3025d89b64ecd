"""What a run measured, as Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.load.client import Sample
from tests.load.promises import CHECK, Verdict

SHARES = (50, 90, 99, 100)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` percent of them do not exceed. `values` must not be empty."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)]


@dataclass(frozen=True, slots=True)
class Run:
    """`planned` steps were to begin (0 in a closed loop, which has no plan), `begun` did, in `seconds`."""

    title: str
    samples: tuple[Sample, ...]
    seconds: float
    planned: int
    begun: int
    verdict: Verdict

    def of_load(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.operation != CHECK]


def medians(run: Run) -> dict[str, float]:
    """Seconds from sending to the answer of each operation that was answered at all, p50."""
    found: dict[str, list[float]] = {}
    for sample in run.of_load():
        if sample.ok:
            found.setdefault(sample.operation, []).append(sample.ended - sample.sent)
    return {operation: percentile(times, 50) for operation, times in sorted(found.items())}


def _row(name: str, samples: Sequence[Sample], seconds: float) -> str:
    planned = [sample.ended - sample.intended for sample in samples]
    sent = [sample.ended - sample.sent for sample in samples]
    errors = Counter(sample.code or str(sample.status) for sample in samples if not sample.ok)
    again = Counter(code for sample in samples for code in sample.refused)
    times = [f"{percentile(planned, share) * 1000:,.0f}" for share in SHARES]
    cells = [
        name,
        f"{len(samples):,}",
        f"{len(samples) / seconds:,.1f}",
        *times,
        f"{percentile(sent, 99) * 1000:,.0f}",
        _counted(again),
        _counted(errors),
    ]
    return f"| {' | '.join(cells)} |"


def _counted(codes: Counter[str]) -> str:
    return ", ".join(f"{count} {code}" for code, count in sorted(codes.items()))


def table(run: Run) -> str:
    """Latencies in milliseconds, counted from the intended beginning but for the last of them."""
    samples = run.of_load()
    lines = [
        "| operation | requests | a second | p50 | p90 | p99 | max | p99 from sending | tried again | errors |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in sorted({sample.operation for sample in samples}):
        lines.append(_row(name, [sample for sample in samples if sample.operation == name], run.seconds))
    if samples:
        lines.append(_row("**all**", samples, run.seconds))
    return "\n".join(lines)


def promises(verdict: Verdict) -> str:
    if verdict.broken:
        return f"Promises broken, {len(verdict.broken)}:\n\n" + "\n".join(f"* {what}" for what in verdict.broken[:20])
    return (
        f"Promises: {verdict.rows:,} rows and {verdict.batches:,} batches read back, every one where it has to be,"
        " every counter equal to a recount."
    )


def section(run: Run) -> str:
    late = ""
    if run.planned:
        late = f" {run.planned:,} steps were planned, {run.planned - run.begun:,} of them did not begin in time."
    took = f"{run.begun:,} steps in {run.seconds:.0f} s.{late}"
    return f"### {run.title}\n\n{took}\n\n{table(run)}\n\n{promises(run.verdict)}\n"


def server_errors(samples: Iterable[Sample]) -> list[Sample]:
    """Answers of 500 and above, and requests that were never answered; refusals that ask for a wait included."""
    return [sample for sample in samples if sample.status >= 500 or sample.status == 0]
