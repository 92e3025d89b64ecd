"""Which limit of AWS is reached first, at which rate: ``python -m tests.load.limits``. Uses no network."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from tests.load import page
from tests.load.limits.counted import PLACES, Spent, count_units
from tests.load.limits.demand import Limit, Workload, limits, workload
from tests.load.limits.journey import simulate
from tests.load.limits.quotas import CHECKED, NEW_ACCOUNT_CONCURRENCY, Quotas, Site, Speeds
from tests.load.limits.simulation import Outcome
from tests.load.report import percentile

PARTS_OF_THE_FIRST = (0.5, 0.9, 1.1, 2.0)
"""Of the rate at which the first limit is full; the simulation shows what clients see there."""
MOST_REQUESTS = 60_000
SHOWN = 6


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.load.limits", description=__doc__)
    parser.add_argument("--vcpus", type=_positive, default=Site().vcpus, help="of the search domain's data nodes")
    parser.add_argument("--vaults", type=_positive, default=1_000, help="evenly used ones, of the second scenario")
    parser.add_argument("--concurrency", type=_positive, default=Quotas().concurrency, help="Lambda's, of the account")
    parser.add_argument("--speed", action="append", default=[], metavar="NAME=SECONDS", help=_named_speeds())
    parser.add_argument("--times", type=Path, help="medians of a run: tests.load --json; used for all but searches")
    parser.add_argument("--seconds", type=_positive, default=30.0, help="of each simulation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write docs/load.md")
    return parser.parse_args(given)


def _named_speeds() -> str:
    return "one of " + ", ".join(f"{field.name} ({field.default:.3g})" for field in fields(Speeds))


def _positive(text: str) -> float:
    number = float(text)
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def speeds_of(settings: Sequence[str], times: Path | None) -> Speeds:
    """The assumed ones, with what was given in their place. Raises `ValueError` for a name that is none."""
    chosen: dict[str, float] = {}
    if times is not None:
        # What a machine needs for a request that reads one item is what the functions need around their own work.
        chosen["overhead"] = float(json.loads(times.read_text("utf-8"))["seconds"]["inspect"])
    known = {field.name for field in fields(Speeds)}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name not in known:
            raise ValueError(f"{name!r} is no speed; there are {', '.join(sorted(known))}")
        chosen[name] = _positive(value)
    return replace(Speeds(), **chosen)


def number(value: float) -> str:
    if math.isinf(value):
        return "never"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def limits_table(found: Sequence[Limit]) -> str:
    first = found[0].full_at()
    lines = ["| limit | capacity | full at, requests/s | used when the first is full | beyond it | what moves it |"]
    lines.append("|---|---|---|---|---|---|")
    for limit in found:
        used = f"{100 * limit.use(first) / limit.capacity:.0f} %"
        capacity = f"{number(limit.capacity)} {limit.unit}"
        lines.append(
            f"| {limit.name} | {capacity} | {number(limit.full_at())} | {used} | {limit.then} | {limit.change} |"
        )
    return "\n".join(lines)


def simulated(work: Workload, rates: Sequence[float], seconds: float, seed: int) -> Iterator[tuple[float, Outcome]]:
    for rate in rates:
        # A warm-up of a fifth: the buckets' first fill and the cold starts belong to no steady state.
        length = min(seconds, MOST_REQUESTS / rate)
        yield rate, simulate(work, rate, length, length / 5, seed)


def outcome_table(outcomes: Sequence[tuple[float, Outcome]]) -> str:
    lines = ["| asked, requests/s | answered | p50 | p99 | functions running | refused by | worse | waited for |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for rate, outcome in outcomes:
        p50, p99 = (
            f"{percentile(outcome.latencies, share) * 1000:,.0f} ms" if outcome.latencies else "" for share in (50, 99)
        )
        came = outcome.answered + outcome.refused.total()
        refused = ", ".join(f"{name} {100 * times / came:.0f} %" for name, times in outcome.refused.most_common(3))
        waits = outcome.waited.most_common(1)
        waited = f"{waits[0][0]}" if waits and waits[0][1] else ""
        worse = ", ".join(f"{name} {100 * times / came:.0f} %" for name, times in outcome.worse.most_common())
        cells = [number(rate), number(outcome.rate), p50, p99, number(outcome.mean_running), refused, worse, waited]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def scenario(title: str, work: Workload, seconds: float, seed: int) -> str:
    found = limits(work)
    first = found[0].full_at()
    rates = [part * first for part in PARTS_OF_THE_FIRST]
    table = outcome_table(list(simulated(work, rates, seconds, seed)))
    reached = [limit for limit in found if not math.isinf(limit.full_at())][:SHOWN]
    return (
        f"### {title}\n\nFirst: **{found[0].name}**, at {number(first)} requests a second.\n\n"
        f"{limits_table(reached)}\n\nWhat clients see around that rate, simulated:\n\n{table}\n"
    )


def units_table(spent: Mapping[str, Spent]) -> str:
    lines = ["| operation | reads | of them in the vault's rows | writes | of them in the vault's rows | requests |"]
    lines.append("|---|---|---|---|---|---|")
    for operation, each in sorted(spent.items()):
        reads, writes = (sum(units[place] for place in PLACES) for units in (each.reads, each.writes))
        own_reads, own_writes = (units["vault content"] for units in (each.reads, each.writes))
        requests = each.read_requests + each.write_requests
        lines.append(
            f"| {operation} | {reads:.1f} | {own_reads:.1f} | {writes:.1f} | {own_writes:.1f} | {requests:.1f} |"
        )
    return "\n".join(lines)


def quotas_list(speeds: Speeds) -> str:
    checked = ", ".join(f"{name} {getattr(Quotas(), name):,.0f}" for name in sorted(CHECKED))
    recalled = ", ".join(
        f"{field.name} {getattr(Quotas(), field.name):,.0f}" for field in fields(Quotas) if field.name not in CHECKED
    )
    times = ", ".join(f"{field.name} {getattr(speeds, field.name) * 1000:.3g}" for field in fields(Speeds))
    return (
        f"* Quotas as documented: {checked}.\n* From memory, look them up in Service Quotas: {recalled}.\n"
        "* Milliseconds, assumed unless `--speed` names others; `search`, `passage` and `index_lane` from the"
        f" benchmarks (20,000 passages in one vault): {times}."
    )


EXPLANATION = (
    "The first table of each scenario is arithmetic: what one request of the mix takes of each limit, and the rate at"
    " which the limit is full. Units of DynamoDB are counted from the handlers' own requests; a search also reads the"
    " rows of its vault's last minute, so its reads grow with the rate of ingests. The second is a simulation of single"
    " requests, which shows waits and refusals; what is refused is not sent again. Worse are answers that lack a part:"
    " a search without its query's vector, a request that was not metered. Left out: bursts of DynamoDB beyond one"
    " second, its growth within the half hour, conflicts between transactions on different items, networks."
)


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments(given)
    try:
        speeds = speeds_of(chosen.speed, chosen.times)
    except (ValueError, OSError, LookupError) as error:
        print(f"tests.load.limits: {error}", file=sys.stderr)
        return 2
    counted = count_units()
    quotas = replace(Quotas(), concurrency=chosen.concurrency)
    small = replace(Quotas(), concurrency=float(NEW_ACCOUNT_CONCURRENCY))
    hot, many = Site(chosen.vcpus, hottest=1.0), Site(chosen.vcpus, hottest=1 / chosen.vaults)
    large = replace(many, vcpus=64.0, new_table=False)
    vaults = f"{chosen.vaults:,.0f}"
    scenarios = (
        (f"One hot vault, {chosen.vcpus:g} search vCPUs", quotas, hot),
        (f"{vaults} vaults, new table, {chosen.vcpus:g} search vCPUs", quotas, many),
        (f"{vaults} vaults, grown table, 64 search vCPUs", quotas, large),
        (f"{vaults} vaults in a new account ({NEW_ACCOUNT_CONCURRENCY} functions at once)", small, many),
    )
    body = "\n".join(
        scenario(title, workload(counted, each, speeds, site), chosen.seconds, chosen.seed)
        for title, each, site in scenarios
    )
    body += f"\n### Units of one request, counted\n\n{units_table(counted.spent)}\n"
    body += f"\n### Assumptions\n\n{quotas_list(speeds)}\n"
    text = f"## Which limit of AWS comes first\n\n{EXPLANATION}\n\n{body}"
    print(text)
    if chosen.write:
        page.write("limits", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
