"""`make bench`, or ``python -m tests.bench [names…] [--locomo FILE] [--quick]``.

Prints one table row per number and writes the table of a complete run to ``docs/benchmarks.md``.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from tests.bench.report import Row, page, printed

NAMES = ("pools", "ingest", "search", "disk", "memory", "dynamodb", "opensearch", "cold")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    options.add_argument("names", nargs="*", help=f"which benches to run: {', '.join(NAMES)} (default: all)")
    options.add_argument("--locomo", type=Path, help="the LoCoMo data set: adds retrieval quality")
    options.add_argument("--quick", action="store_true", help="smaller vaults")
    chosen = options.parse_args()
    unknown = sorted(set(chosen.names) - set(NAMES))
    if unknown:
        options.error(f"unknown bench {', '.join(unknown)}; known: {', '.join(NAMES)}")

    rows: list[Row] = []
    notes: list[str] = []
    names = tuple(chosen.names) or NAMES
    print(printed([]), flush=True)
    for name in names:
        module = importlib.import_module(f"tests.bench.{name}")
        _show(module.run(chosen.quick), rows)
        notes.append(module.NOTE)
    if chosen.locomo is not None:
        quality = importlib.import_module("tests.bench.quality")
        _show(quality.run(chosen.locomo), rows)
        notes.append(quality.NOTE)
    if names == NAMES:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page(rows, notes, chosen.quick), "utf-8")
    missed = [row.what for row in rows if row.met is False]
    if missed:
        print(f"{len(missed)} target(s) missed: {'; '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def _show(measured: list[Row], rows: list[Row]) -> None:
    for row in measured:
        print(printed([row]).splitlines()[-1], flush=True)
    rows.extend(measured)


if __name__ == "__main__":
    sys.exit(main())
