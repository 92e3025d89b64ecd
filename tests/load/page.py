"""`docs/load.md`: a page of parts, each written by the program that measured it."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "load.md"
PARTS = ("embedded", "aws", "limits")
INTRODUCTION = """# Load

What the server does under load, and at which rate which limit of AWS is reached first. The parts between the marks are
written by programs; do not edit them.

| command | measures |
|---|---|
| `python -m tests.load --write` | a mix of clients on the embedded back end, over HTTP |
| `python -m tests.load --backend aws --write` | the same on the AWS back end, emulated on this machine |
| `python -m tests.load.limits --write` | a simulation of the limits of AWS |

## How to read the runs

* The mix: 55 % searches, 15 % ingests of one to five messages, 10 % date-searches, 5 % inspections, 5 % stats, 6 %
  consolidations (checkout, then commit, renewal and commit, release, or a client that never comes back), 2 % deletions
  of one to three ids, 2 % uploads of five to twenty lines. It is drawn from a seed (`--seed`).
* In a closed loop every client waits for its answer before it goes on, so a slow server is asked less; in an open loop
  (`--rate`) steps begin evenly whatever the answers take, and latencies count from the moment at which a step was to
  begin. "p99 from sending" leaves out that wait: where the two differ, clients queued.
* Latencies are in milliseconds and include waits that a `Retry-After` asked for. "tried again" counts refused tries by
  code, "errors" the requests that ended in one; `sources_deleted` is what a commit must answer when all its sources
  were deleted meanwhile.
* Clients and server share the machine's cores. The emulation of AWS runs every part in one or two processes of this
  machine: its latencies say nothing about AWS. What carries over is that no promise broke and which refusals came.
* After each run every vault is read back through export, inspect and stats, and held against what the answers told:
  each raw memory unconsolidated, in one open lease, or in exactly one committed batch; counters equal a recount; what
  was acknowledged is there, what was deleted is not.

A run ends by itself after `--seconds` or `--steps`. It goes to this machine only; another address wants
`--i-own-this-address`, and `--key` a key with `keys:admin`, from which the run mints its vaults and removes them.
"""


def machine() -> str:
    """Date, cores and Python: what numbers depend on, and nothing that tells one machine from another.

    The load average is the last minute's: called before a run it says what else the machine was doing.
    """
    others = f"load average {os.getloadavg()[0]:.1f} before the run"
    return f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}, {others}"


def _marks(part: str) -> tuple[str, str]:
    return f"<!-- {part} -->", f"<!-- end of {part} -->"


def with_part(page: str, part: str, body: str) -> str:
    """The page with this part replaced; parts that it lacks are added in their order."""
    if part not in PARTS:
        raise ValueError(f"{part!r} is no part of the page")
    bodies = {name: _body(page, name) for name in PARTS} | {part: body.strip()}
    written = [
        f"{first}\n\n{bodies[name]}\n\n{last}" for name in PARTS for first, last in [_marks(name)] if bodies[name]
    ]
    return "\n".join([INTRODUCTION, "\n\n".join(written), ""])


def _body(page: str, part: str) -> str:
    first, last = map(re.escape, _marks(part))
    found = re.search(f"{first}(.*?){last}", page, re.DOTALL)
    return "" if found is None else found[1].strip()


def write(part: str, body: str, path: Path = PAGE) -> None:
    before = path.read_text("utf-8") if path.exists() else ""
    path.write_text(with_part(before, part, body), "utf-8")
