"""`make bench`, or ``python -m tests.bench [names…] [--locomo FILE] [--quick]``.

Prints a table for each bench and writes it into its section of ``docs/benchmarks.md``; the other sections stay. The
benches of retrieval quality use LoCoMo as well where it is given.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from tests.bench.report import Options, missed, page, printed, section

NAMES = (
    "quality", "ablation", "parity", "peers", "search", "search_profile", "vault_scale", "timeline", "ingest", "models",
    "upload", "mcp", "pools", "disk", "memory", "dynamodb", "opensearch", "cold",
)  # fmt: skip
PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which benches to run: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--locomo", type=Path, help="the LoCoMo data set, locomo10.json or a part of it")
    parser.add_argument("--quick", action="store_true", help="smaller vaults")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the sections are written")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - set(NAMES))
    if unknown:
        parser.error(f"unknown bench {', '.join(unknown)}; known: {', '.join(NAMES)}")
    options = Options(chosen.quick, chosen.locomo)
    titles = [importlib.import_module(f"tests.bench.{name}").TITLE for name in NAMES]
    failures: list[str] = []
    for name in chosen.names or NAMES:
        module = importlib.import_module(f"tests.bench.{name}")
        shown = module.run(options)
        print(f"{module.TITLE}\n\n{printed(shown)}\n", flush=True)
        failures += missed(shown)
        # After each: a bench that fails leaves the others' numbers standing.
        old = chosen.page.read_text("utf-8") if chosen.page.exists() else ""
        written = {module.TITLE: section(module.TITLE, shown, module.NOTE, options.quick)}
        chosen.page.parent.mkdir(parents=True, exist_ok=True)
        chosen.page.write_text(page(old, written, titles), "utf-8")
    if failures:
        print(f"{len(failures)} target(s) missed: {'; '.join(failures)}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
