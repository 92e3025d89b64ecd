"""Put a server under load: ``python -m tests.load``, or `make load`. Stops by itself; ``--help`` lists the bounds."""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tests.e2e.server import Server
from tests.load import page
from tests.load.client import Client, NotAllowed, check_address
from tests.load.clients import Bounds, closed_loop, open_loop
from tests.load.driver import Driver
from tests.load.known import Known
from tests.load.promises import check
from tests.load.report import Run, medians, section
from tests.load.script import MIX

PROGRAMS = {"embedded": "infra.local.server", "aws": "infra.local.aws_emulation"}
TITLES = {"embedded": "The embedded back end", "aws": "The AWS back end, emulated"}
MOST_SECONDS, MOST_STEPS, MOST_CLIENTS, MOST_VAULTS = 600, 50_000, 64, 100
RATE_OF_WHAT_IT_TOOK = 0.6
"""Of a closed loop's throughput: an open loop at it shows the latency of a server that keeps up."""
OPEN_CLIENTS = 4
"""Times as many clients an open loop has, so that a slow answer does not hold up the next step."""
GRACE_SECONDS = 15.0


def between(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        number = float(text)
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"must be from {low:g} to {high:g}")
        return number

    return parse


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--backend", choices=sorted(PROGRAMS), default="embedded", help="server to start and stop")
    parser.add_argument("--embedder", default="minilm-l6-v2", help="embedding model of the started server")
    parser.add_argument("--seconds", type=between(1, MOST_SECONDS), default=20.0, help="length of each loop")
    parser.add_argument("--steps", type=between(1, MOST_STEPS), default=10_000, help="at most so many a loop")
    parser.add_argument("--clients", type=between(1, MOST_CLIENTS), default=8)
    parser.add_argument("--vaults", type=between(1, MOST_VAULTS), default=4, help="1 makes one hot vault")
    parser.add_argument(
        "--rate", type=between(0.1, 10_000), help="an open loop of so many steps a second, and no other"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url", help="a server that runs already")
    parser.add_argument("--key", help="its key with keys:admin; without, it must provide keys by itself")
    parser.add_argument("--i-own-this-address", action="store_true", help="allow a --url beyond this machine")
    parser.add_argument("--json", type=Path, help="write medians here, for tests.load.limits --times")
    parser.add_argument("--write", action="store_true", help="write docs/load.md")
    return parser.parse_args(given)


@contextmanager
def server(chosen: argparse.Namespace) -> Iterator[str]:
    """The address to load; starts a server in a folder that goes with it, unless one was named."""
    if chosen.url is not None:
        check_address(chosen.url, chosen.i_own_this_address)
        yield chosen.url.rstrip("/")
        return
    with tempfile.TemporaryDirectory(prefix="strata-load-") as folder:
        settings = {"STRATA_EMBEDDER": chosen.embedder, "STRATA_LOG_LEVEL": "ERROR"}
        with Server(Path(folder), settings, PROGRAMS[chosen.backend]) as running:
            yield running.url


@contextmanager
def vaults(client: Client, number: int, admin: str | None) -> Iterator[list[Known]]:
    """Empty vaults of this run's own. Minted ones are emptied and their keys disabled at the end."""
    if admin is None:
        yield [Known(f"mk_load-{uuid4()}") for _ in range(number)]
        return
    minted: list[dict[str, str]] = []
    try:
        for place in range(number):
            answer = client.call("check", "POST", "/v1/keys", admin, {"name": f"load {place}", "vault": "new"})
            if answer.status != 201:
                raise NotAllowed(f"no key could be minted: {answer.status} {answer.code}")
            minted.append(answer.json)
        yield [Known(each["key"]) for each in minted]
    finally:
        client.until = time.monotonic() + GRACE_SECONDS
        for each in minted:
            client.call("check", "DELETE", "/v1/memory", each["key"])
            client.call("check", "DELETE", f"/v1/keys/{each['key_id']}", admin)


def run(url: str, chosen: argparse.Namespace, title: str, rate: float | None) -> Run:
    """One loop on vaults of its own, then the check of its promises."""
    clients, number = int(chosen.clients), int(chosen.vaults)
    if rate is not None:
        clients = min(MOST_CLIENTS, clients * OPEN_CLIENTS)
    client = Client(url, clients, time.monotonic() + GRACE_SECONDS)
    try:
        with vaults(client, number, chosen.key) as known:
            for vault in known:
                client.call("check", "POST", "/v1/memory/warmup", vault.key)
            began = time.monotonic()
            bounds = Bounds(began + chosen.seconds, int(chosen.steps))
            client.until = bounds.until + GRACE_SECONDS
            driver = Driver(client, known)
            if rate is None:
                closed_loop(driver, bounds, chosen.seed, clients, number, MIX)
            else:
                open_loop(driver, bounds, chosen.seed, clients, number, MIX, rate)
            seconds = time.monotonic() - began
            client.until = time.monotonic() + 4 * GRACE_SECONDS
            verdict = check(client, known)
        planned = 0 if rate is None else min(int(chosen.steps), math.ceil(rate * chosen.seconds))
        return Run(title, tuple(client.samples), seconds, planned, bounds.begun, verdict)
    finally:
        client.close()


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments(given)
    machine = page.machine()
    runs: list[Run] = []
    load = f"{chosen.clients:g} clients, {chosen.vaults:g} vaults"
    try:
        with server(chosen) as url:
            rate = chosen.rate
            if rate is None:
                runs.append(run(url, chosen, f"Closed loop: {load}", None))
                print(section(runs[-1]), flush=True)
                rate = max(0.1, round(RATE_OF_WHAT_IT_TOOK * runs[-1].begun / runs[-1].seconds, 1))
            runs.append(run(url, chosen, f"Open loop: {rate:g} steps a second, {chosen.vaults:g} vaults", rate))
            print(section(runs[-1]), flush=True)
    except NotAllowed as refusal:
        print(refusal, file=sys.stderr)
        return 2
    if chosen.json:
        chosen.json.write_text(json.dumps({"seconds": medians(runs[-1])}, indent=2) + "\n", "utf-8")
    if chosen.write:
        model = f"embedding model {chosen.embedder}" if chosen.url is None else "a server that ran already"
        head = f"## {TITLES[chosen.backend]}\n\n{machine}; {model}, seed {chosen.seed}.\n\n"
        page.write(chosen.backend, head + "\n".join(map(section, runs)))
    return 1 if any(each.verdict.broken for each in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
