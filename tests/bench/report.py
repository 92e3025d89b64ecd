"""The bench table: what was measured, beside a baseline of the same run."""

from __future__ import annotations

import platform
import sqlite3
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from time import perf_counter, process_time


@dataclass(frozen=True)
class Row:
    """One line of the table. `value`, `baseline` and `ratio` are text with their units.

    `target` is what the number must meet, and `met` whether it does; both are absent where a number is only stated.
    """

    what: str
    value: str
    baseline: str = ""
    ratio: str = ""
    target: str = ""
    met: bool | None = None


def times(value: float, baseline: float) -> str:
    return f"{value / baseline:.2f}×"


def ms(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.3f} ms" if value < 1 else f"{value:.1f} ms"


def paired(rounds: int, works: Sequence[Callable[[], object]]) -> list[tuple[float, float]]:
    """Median (wall, CPU) seconds of each work. The works take turns, so that a slow moment hits all of them."""
    spent: list[list[tuple[float, float]]] = [[] for _ in works]
    for _ in range(rounds):
        for work, seen in zip(works, spent, strict=True):
            wall, cpu = perf_counter(), process_time()
            work()
            seen.append((perf_counter() - wall, process_time() - cpu))
    return [(statistics.median(wall for wall, _ in seen), statistics.median(cpu for _, cpu in seen)) for seen in spent]


def printed(rows: Iterable[Row]) -> str:
    """The table as Markdown."""
    lines = ["| what | measured | baseline, same run | ratio | target | met |", "|---|---|---|---|---|---|"]
    for row in rows:
        met = "" if row.met is None else "yes" if row.met else "**no**"
        lines.append(f"| {row.what} | {row.value} | {row.baseline} | {row.ratio} | {row.target} | {met} |")
    return "\n".join(lines)


def machine() -> str:
    """The machine and the versions that the numbers belong to."""
    model = platform.processor() or platform.machine()
    cpus = 0
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                model, cpus = value.strip(), cpus + 1
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "onnxruntime", "pydantic"))
    cores = f", {cpus} cores" if cpus else ""
    return (
        f"{datetime.now(UTC):%Y-%m-%d} · {platform.system()} {platform.machine()}, {model}{cores} ·"
        f" Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {packages}"
    )


def page(rows: Sequence[Row], notes: Sequence[str], quick: bool) -> str:
    """`docs/benchmarks.md`."""
    size = "a quick run on smaller vaults: not the numbers to quote" if quick else "a full run"
    body = "\n".join(f"* {note}" for note in notes)
    return (
        "# Benchmarks\n\n"
        "Written by `make bench`; do not edit. Absolute numbers belong to one machine, ratios compare with a baseline"
        " measured in the same run.\n\n"
        f"{machine()} · {size}\n\n{printed(rows)}\n\n## How they are measured\n\n{body}\n"
    )
