"""What a cold start costs before the first request, and how large the bundles are."""

from __future__ import annotations

import statistics
import tempfile
import zipfile
from pathlib import Path

from infra.bundling import KINDS, PLAIN, SEARCH, bundle, running_python
from infra.functions import FUNCTIONS
from tests.bench.report import Options, Row, times
from tests.infra.cold import Start, floor_start, handler_start

HANDLERS = ("home", "ingest", "checkout", "commit", "search", "indexer")
MOST_MODULES = 1.15
PLAIN_MB = 8


def run(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as place:
        folders = {kind: Path(place) / kind for kind in KINDS}
        for kind, folder in folders.items():
            with zipfile.ZipFile(bundle(kind, running_python(), "native")) as archive:
                archive.extractall(folder)
        return [*_starts(folders, 3 if options.quick else 9), *_sizes()]


def _starts(folders: dict[str, Path], rounds: int) -> list[Row]:
    """The starts take turns, so that a slow moment hits all of them."""
    floors: list[Start] = []
    found: dict[str, list[Start]] = {name: [] for name in HANDLERS}
    for _ in range(rounds):
        floors.append(floor_start(folders[PLAIN]))
        for name, seen in found.items():
            seen.append(handler_start(folders[SEARCH if FUNCTIONS[name].searches else PLAIN], name))
    floor_s, floor_modules = statistics.median(each.cpu_s for each in floors), len(floors[0].ready)
    rows = []
    for name, seen in found.items():
        spent_s, imported, ready = statistics.median(each.cpu_s for each in seen), seen[0].imported, seen[0].ready
        rows.append(
            Row(
                f"cold start of `{name}`, CPU",
                f"{spent_s:.2f} s, {len(ready)} modules",
                f"{floor_s:.2f} s, {floor_modules} modules",
                times(spent_s, floor_s),
            )
        )
        rows.append(
            Row(
                f"modules that `{name}` imports",
                f"{len(imported)}",
                f"{floor_modules}",
                times(len(imported), floor_modules),
                f"≤ {MOST_MODULES}×",
                len(imported) <= MOST_MODULES * floor_modules,
            )
        )
    return rows


def _sizes() -> list[Row]:
    rows = []
    for python, architecture in (("3.13", "arm64"), (running_python(), "native")):
        for kind in KINDS:
            path = bundle(kind, python, architecture)
            with zipfile.ZipFile(path) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
            packed_mb = path.stat().st_size / 1e6
            limited = kind == PLAIN
            rows.append(
                Row(
                    f"bundle `{kind}`, Python {python}, {architecture}",
                    f"{packed_mb:.1f} MB",
                    f"{unpacked / 1e6:.1f} MB unpacked",
                    target=f"≤ {PLAIN_MB} MB" if limited else "",
                    met=packed_mb <= PLAIN_MB if limited else None,
                )
            )
    return rows


TITLE = "Cold start"
NOTE = (
    "Cold starts: fresh processes that have only an unpacked, byte-compiled bundle, until a request can be served,"
    " without the start of the interpreter itself; medians of nine. The baseline makes a client of DynamoDB and imports"
    " pydantic and the Logger and Metrics of Powertools. A bundle for another Python than the one that builds it is not"
    " byte-compiled."
)
