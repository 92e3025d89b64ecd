"""The bench page: what was measured, beside a baseline of the same run, one section a bench."""

from __future__ import annotations

import platform
import re
import sqlite3
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from time import perf_counter, process_time

HEADER = ("what", "measured", "baseline, same run", "ratio", "target", "met")


@dataclass(frozen=True)
class Options:
    """`locomo` is the file of the data set, None where none was given; `quick` asks for smaller vaults."""

    quick: bool = False
    locomo: Path | None = None


@dataclass(frozen=True)
class Row:
    """One line of the common table. `value`, `baseline` and `ratio` are text with their units.

    `target` is what the number must meet, and `met` whether it does; both are absent where a number is only stated.
    """

    what: str
    value: str
    baseline: str = ""
    ratio: str = ""
    target: str = ""
    met: bool | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        met = "" if self.met is None else "yes" if self.met else "**no**"
        return (self.what, self.value, self.baseline, self.ratio, self.target, met)


@dataclass(frozen=True)
class Grid:
    """A table of its own shape."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


Shown = Row | Grid


def times(value: float, baseline: float) -> str:
    return f"{value / baseline:.2f}×"


def ms(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.3f} ms" if value < 1 else f"{value:.1f} ms"


def at_most(value: float, most: float) -> tuple[str, bool]:
    """Target and verdict of a `Row`."""
    return f"≤ {most:g}", value <= most


def at_least(value: float, least: float) -> tuple[str, bool]:
    return f"≥ {least:g}", value >= least


def paired(rounds: int, works: Sequence[Callable[[], object]]) -> list[tuple[float, float]]:
    """Median (wall, CPU) seconds of each work. The works take turns, so that a slow moment hits all of them."""
    spent: list[list[tuple[float, float]]] = [[] for _ in works]
    for _ in range(rounds):
        for work, seen in zip(works, spent, strict=True):
            wall, cpu = perf_counter(), process_time()
            work()
            seen.append((perf_counter() - wall, process_time() - cpu))
    return [(statistics.median(wall for wall, _ in seen), statistics.median(cpu for _, cpu in seen)) for seen in spent]


def printed(shown: Iterable[Shown]) -> str:
    """The tables as Markdown: rows that follow each other share one."""
    grids: list[tuple[Sequence[str], list[Sequence[str]]]] = []
    for each in shown:
        if isinstance(each, Grid):
            grids.append((each.header, list(each.rows)))
        elif grids and grids[-1][0] is HEADER:
            grids[-1][1].append(each.cells)
        else:
            grids.append((HEADER, [each.cells]))
    return "\n\n".join("\n".join(_lines(header, rows)) for header, rows in grids)


def _lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(header), "|" + "---|" * len(header), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def missed(shown: Iterable[Shown]) -> list[str]:
    """What did not meet its target."""
    return [row.what for row in shown if isinstance(row, Row) and row.met is False]


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


def section(title: str, shown: Sequence[Shown], note: str, quick: bool) -> str:
    """What one bench measured, as it stands on the page."""
    size = " · a quick run on smaller vaults: not the numbers to quote" if quick else ""
    return f"## {title}\n\n{machine()}{size}\n\n{printed(shown)}\n\n{note}\n"


def page(old: str, measured: Mapping[str, str], titles: Sequence[str]) -> str:
    """`docs/benchmarks.md` with the sections of `measured`, by title, and those of `old` for the other `titles`."""
    kept = {match[1]: match[0].strip() + "\n" for match in re.finditer(r"^## (.+)\n(?:(?!## ).*\n)*", old, re.M)}
    sections = [text for title in titles if (text := measured.get(title) or kept.get(title))]
    head = (
        "# Benchmarks\n\n"
        "Written by `make bench`; do not edit. Each section says when and where it was measured. Absolute numbers"
        " belong to one machine, ratios compare with a baseline measured in the same run.\n"
    )
    return "\n".join([head, *sections])
