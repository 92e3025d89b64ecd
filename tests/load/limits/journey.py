"""One request on its way, limit by limit."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from tests.load import script
from tests.load.limits.counted import CONTENT, INDEXING, PLACES, USAGE
from tests.load.limits.demand import PASSAGE_TOKENS, QUERY_TOKENS, Workload
from tests.load.limits.simulation import Bucket, Events, Functions, Outcome, Process, Servers, Stage, arrivals, starting

REQUEST_PATIENCE, VERB_PATIENCE, SEARCH_PATIENCE, EMBEDDING_PATIENCE = 5.0, 14.0, 3.0, 3.0
"""Seconds after which the adapters give up; an embedding is done without."""
GATEWAY, LAMBDA, TABLE, PARTITION = "API Gateway", "Lambda concurrency", "table throughput", "partition throughput"
CHECKOUTS, COUNTERS, DOMAIN, BEDROCK, METERING = "checkouts", "counters", "search domain", "Bedrock", "metering"


class World:
    """All that requests meet. The hottest vault has partitions of its own; all others are one that is never full."""

    def __init__(self, work: Workload, rate: float, source: random.Random, outcome: Outcome) -> None:
        quotas, site = work.quotas, work.site
        self.work, self.source, self.outcome, self.events = work, source, outcome, Events()
        self.gateway = Bucket(quotas.gateway_rate, quotas.gateway_burst)
        self.functions = Functions(quotas.concurrency, quotas.environments_at_once, quotas.environments_a_second)
        self.table = (
            Bucket(site.table_reads(quotas), site.table_reads(quotas)),
            Bucket(site.table_writes(quotas), site.table_writes(quotas)),
        )
        self.partitions: Mapping[str, tuple[Bucket, Bucket]] = {
            place: (
                Bucket(quotas.partition_reads, quotas.partition_reads),
                Bucket(quotas.partition_writes, quotas.partition_writes),
            )
            for place in PLACES
        }
        self.checkouts, self.counters = Servers(1), Servers(1)
        self.domain = Servers(max(1, math.floor(site.vcpus)))
        tokens = quotas.embedding_tokens_a_minute / 60
        # Of a minute's tokens no more than a second's is left over: load did not begin just now.
        self.bedrock = Bucket(tokens, quotas.embedding_tokens_a_minute, tokens)
        self.tail_units = work.tail_units(rate)
        self._changed = 0.0

    def running(self, change: int) -> None:
        """Account for the time in which so many functions ran, then note that one came or went."""
        outcome, now = self.outcome, self.events.now
        end = min(now, outcome.seconds)
        outcome.busy += max(0.0, end - self._changed) * (self.functions.running - change)
        self._changed = end
        outcome.most_running = max(outcome.most_running, self.functions.running)

    def request(self, began: float) -> Process:
        source, work = self.source, self.work
        (operation,) = source.choices(list(work.shares), list(work.shares.values()))
        hot = source.random() < work.site.hottest
        if not self.gateway.take(began):
            self._refused(GATEWAY, began)
            return
        cold = self.functions.enter(operation, began)
        if cold is None:
            self._refused(LAMBDA, began)
            return
        self.running(+1)
        if cold:
            yield work.speeds.cold_start
        refused = yield from self._work(operation, hot)
        self.functions.leave(operation)
        self.running(-1)
        if refused:
            self._refused(refused, began)
        elif began >= self.outcome.warm_up:
            self.outcome.answered += 1
            self.outcome.latencies.append(self.events.now - began)

    def _refused(self, limit: str, began: float) -> None:
        if began >= self.outcome.warm_up:
            self.outcome.refused[limit] += 1

    def _work(self, operation: str, hot: bool) -> Stage:
        spent, speeds, events = self.work.spent[operation], self.work.speeds, self.events
        yield speeds.overhead
        if operation == script.SEARCH:
            wait = self.bedrock.reserve(events.now, QUERY_TOKENS, EMBEDDING_PATIENCE)
            if wait is None:
                self.outcome.worse[BEDROCK] += 1
            yield speeds.embedding + (EMBEDDING_PATIENCE if wait is None else wait)
            served = self.domain.reserve(events.now, speeds.search, SEARCH_PATIENCE)
            if served is None:
                yield SEARCH_PATIENCE
                return DOMAIN
            self._waited(DOMAIN, served - speeds.search)
            yield served
        if operation == "checkout" and hot:
            served = self.checkouts.reserve(events.now, speeds.checkout_alone, VERB_PATIENCE)
            if served is None:
                yield VERB_PATIENCE
                return CHECKOUTS
            self._waited(CHECKOUTS, served - speeds.checkout_alone)
            yield served - speeds.checkout_alone
        for write, requests, seconds in (
            (0, spent.read_requests, speeds.read),
            (1, spent.write_requests, speeds.write),
        ):
            units = spent.writes if write else spent.reads
            more = self.tail_units if operation == script.SEARCH and hot and not write else 0.0
            refused = yield from self._units(units, more, write, hot)
            if refused:
                return refused
            yield requests * seconds
        if hot and spent.vault_transactions >= 1:
            served = self.counters.reserve(events.now, spent.vault_transactions * speeds.write, VERB_PATIENCE)
            if served is None:
                yield VERB_PATIENCE
                return COUNTERS
            own = spent.vault_transactions * speeds.write
            self._waited(COUNTERS, served - own)
            yield served - own
        if spent.rows:
            self.events.start(self._indexing(spent.rows, spent.passages, hot), events.now)
        return ""

    def _units(self, units: Mapping[str, float], more: float, write: int, hot: bool) -> Stage:
        """Waits for the table's and the hottest vault's units. What metering cannot write is left out, as there."""
        total = sum(units.values()) + more
        if total:
            wait = self.table[write].reserve(self.events.now, total, REQUEST_PATIENCE)
            if wait is None:
                yield REQUEST_PATIENCE
                return TABLE
            self._waited(TABLE, wait)
            yield wait
        if not hot:
            return ""
        for place, own in units.items():
            wanted = own + (more if place == CONTENT else 0.0)
            if not wanted:
                continue
            wait = self.partitions[place][write].reserve(self.events.now, wanted, REQUEST_PATIENCE)
            if wait is None:
                yield REQUEST_PATIENCE
                if place != USAGE:
                    return PARTITION
                self.outcome.worse[METERING] += 1
                continue
            self._waited(PARTITION, wait)
            yield wait
        return ""

    def _waited(self, limit: str, seconds: float) -> None:
        self.outcome.waited[limit] += round(seconds * 1_000_000)

    def _indexing(self, rows: float, passages: float, hot: bool) -> Process:
        """The stream's part. It takes its share of the domain and of the table, and nobody waits for it."""
        spent = self.work.spent[INDEXING]
        self.bedrock.reserve(self.events.now, passages * PASSAGE_TOKENS, math.inf)
        yield rows * spent.read_requests * self.work.speeds.read
        self.table[0].reserve(self.events.now, rows * sum(spent.reads.values()), math.inf)
        if hot:
            for place, units in spent.reads.items():
                self.partitions[place][0].reserve(self.events.now, rows * units, math.inf)
        self.domain.reserve(self.events.now, passages * self.work.speeds.passage, math.inf)


def simulate(
    work: Workload, rate: float, seconds: float = 30.0, warm_up: float = 5.0, seed: int = 1, evenly: bool = False
) -> Outcome:
    """Requests at that rate for so long. What comes in the warm-up is served and not counted."""
    source = random.Random(seed)
    outcome = Outcome(seconds, warm_up)
    world = World(work, rate, source, outcome)
    moments = arrivals(rate, seconds, None if evenly else source)
    world.events.start(starting(world.events, moments, world.request), 0.0)
    world.events.run()
    return outcome
