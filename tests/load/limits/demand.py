"""How much of every limit a rate of requests takes, and at which rate each is used up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.load import script
from tests.load.limits.counted import CONTENT, INDEXING, USAGE, VAULT_RECORD, Counted, Spent
from tests.load.limits.quotas import Quotas, Site, Speeds

MIB = 1024 * 1024
READ_UNIT = 4096
TAIL_SECONDS = 60
QUERY_TOKENS, PASSAGE_TOKENS = 12, 80
ENDLESS = 1e9

REQUESTS: Mapping[str, float] = {
    script.SEARCH: 55,
    script.INGEST: 15,
    script.DATE_SEARCH: 10,
    script.INSPECT: 5,
    script.STATS: 5,
    script.DELETE: 2,
    script.UPLOAD: 2,
    "checkout": 6,
    "commit": 4.8,
    "commit again": 1,
    "release": 0.8,
    "renew": 0.6,
}
"""The mix of `tests.load.script` by requests: a consolidation is a checkout and what follows."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A mix of requests, and what each takes. `shares` add up to one."""

    shares: Mapping[str, float]
    spent: Mapping[str, Spent]
    row_bytes: float
    quotas: Quotas
    speeds: Speeds
    site: Site

    def mean(self, of: Callable[[str, Spent], float]) -> float:
        """Of one request."""
        return sum(share * of(operation, self.spent[operation]) for operation, share in self.shares.items())

    def seconds(self, operation: str) -> float:
        """How long its function runs when nobody else asks."""
        spent, speeds = self.spent[operation], self.speeds
        own = speeds.overhead + spent.read_requests * speeds.read + spent.write_requests * speeds.write
        return own + (speeds.search + speeds.embedding if operation == script.SEARCH else 0.0)

    def rows(self) -> float:
        """Stored by one request."""
        return self.mean(lambda _, spent: spent.rows)

    def passages(self) -> float:
        return self.mean(lambda _, spent: spent.passages)

    def tail_units(self, rate: float) -> float:
        """Read units of the rows of the last minute, which every search reads of its vault; at most 1 MB of them."""
        recent = rate * self.site.hottest * self.rows() * self.row_bytes * TAIL_SECONDS
        return min(recent, MIB) / READ_UNIT

    def reads(self, place: str, rate: float) -> float:
        """Units a second at that place of the table, indexing included."""
        own = rate * self.mean(lambda _, spent: spent.reads[place])
        indexing = rate * self.rows() * self.spent[INDEXING].reads[place]
        tails = rate * self.shares.get(script.SEARCH, 0.0) * self.tail_units(rate) if place == CONTENT else 0.0
        return own + indexing + tails

    def writes(self, place: str, rate: float) -> float:
        return rate * self.mean(lambda _, spent: spent.writes[place])


def workload(
    counted: Counted,
    quotas: Quotas,
    speeds: Speeds,
    site: Site,
    requests: Mapping[str, float] = REQUESTS,
) -> Workload:
    total = sum(requests.values())
    return Workload(
        {name: share / total for name, share in requests.items()},
        counted.spent,
        counted.row_bytes,
        quotas,
        speeds,
        site,
    )


@dataclass(frozen=True, slots=True)
class Limit:
    """`use` is what a rate of requests takes of it, in the unit of `capacity`; it never falls with the rate.

    `then` is what clients see beyond it, `change` what moves it.
    """

    name: str
    capacity: float
    unit: str
    use: Callable[[float], float]
    then: str
    change: str

    def full_at(self) -> float:
        """Requests a second at which it is used up; infinite for one that this mix does not touch."""
        if self.use(ENDLESS) <= self.capacity:
            return float("inf")
        low, high = 0.0, ENDLESS
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if self.use(middle) <= self.capacity else (low, middle)
        return low


def limits(work: Workload) -> list[Limit]:
    """All limits, the one that is reached first in front."""
    return sorted((*_of_the_account(work), *_of_the_table(work), *_of_a_vault(work)), key=Limit.full_at)


def _of_the_account(work: Workload) -> list[Limit]:
    quotas, speeds = work.quotas, work.speeds
    searching = work.shares.get(script.SEARCH, 0.0)
    busy = work.mean(lambda operation, _: work.seconds(operation))
    tokens = searching * QUERY_TOKENS + work.passages() * PASSAGE_TOKENS
    return [
        Limit(
            "API Gateway, account",
            quotas.gateway_rate,
            "requests/s",
            lambda rate: rate,
            "429 from the gateway",
            "ask for a higher quota",
        ),
        Limit(
            "Lambda concurrency, account",
            quotas.concurrency,
            "running at once",
            lambda rate: rate * busy,
            "503 from the gateway",
            "ask for a higher quota; reserve concurrency for the indexer",
        ),
        Limit(
            "Lambda requests, account",
            quotas.concurrency * quotas.requests_an_environment,
            "requests/s",
            lambda rate: rate,
            "503 from the gateway",
            "the quota of concurrency moves it tenfold",
        ),
        Limit(
            "Bedrock, tokens of one model",
            quotas.embedding_tokens_a_minute / 60,
            "tokens/s",
            lambda rate: rate * tokens,
            "searches by words alone, vectors later",
            "ask for a higher quota; an inference profile across regions",
        ),
        Limit(
            "Search domain, CPU",
            work.site.vcpus,
            "vCPUs busy",
            lambda rate: rate * (searching * speeds.search + work.passages() * speeds.passage),
            "503 `search_unavailable`",
            "larger or more data nodes, replicas for searches; smaller vaults",
        ),
    ]


def _of_the_table(work: Workload) -> list[Limit]:
    everywhere = (VAULT_RECORD, CONTENT, USAGE, "key record")
    then = "retries, then 503 `busy`"
    grows = "grows by itself to twice the last half hour's peak; set warm throughput before a launch"
    return [
        Limit(
            "DynamoDB table, writes",
            work.site.table_writes(work.quotas),
            "write units/s",
            lambda rate: sum(work.writes(place, rate) for place in everywhere),
            then,
            grows if work.site.new_table else "ask for a higher table quota",
        ),
        Limit(
            "DynamoDB table, reads",
            work.site.table_reads(work.quotas),
            "read units/s",
            lambda rate: sum(work.reads(place, rate) for place in everywhere),
            then,
            grows if work.site.new_table else "ask for a higher table quota",
        ),
    ]


def _of_a_vault(work: Workload) -> list[Limit]:
    quotas, speeds, hottest = work.quotas, work.speeds, work.site.hottest
    then, split = "retries, then 503 `busy`", "spread the load over more vaults: a vault cannot be split"
    transactions = work.mean(lambda _, spent: spent.vault_transactions)
    return [
        Limit(
            "One vault, writes of its rows",
            quotas.partition_writes,
            "write units/s",
            lambda rate: hottest * work.writes(CONTENT, rate),
            then,
            split,
        ),
        Limit(
            "One vault, reads of its rows",
            quotas.partition_reads,
            "read units/s",
            lambda rate: hottest * work.reads(CONTENT, rate),
            then,
            f"{split}; fewer rows a page of date-search; fewer ingests a minute shorten what a search reads",
        ),
        Limit(
            "One vault, reads of its record",
            quotas.partition_reads,
            "read units/s",
            lambda rate: hottest * work.reads(VAULT_RECORD, rate),
            then,
            split,
        ),
        Limit(
            "One key, metering",
            quotas.partition_writes,
            "write units/s",
            lambda rate: hottest * work.writes(USAGE, rate),
            "usage is not recorded; the answer comes",
            "several keys for one vault",
        ),
        Limit(
            "One vault, transactions on its counters",
            1 / speeds.write,
            "transactions/s",
            lambda rate: hottest * rate * transactions,
            then,
            "more messages an ingest; more vaults",
        ),
        Limit(
            "One vault, checkouts of a tier",
            1 / speeds.checkout_alone,
            "checkouts/s",
            lambda rate: hottest * rate * work.shares.get("checkout", 0.0),
            then,
            "larger batches, fewer workers",
        ),
        Limit(
            "One vault, indexing in order",
            1 / speeds.index_lane,
            "passages/s",
            lambda rate: hottest * rate * work.passages(),
            "`index_lag_s` grows; the last minute is found by its words",
            "larger stream batches; more vaults",
        ),
    ]
