"""The model of the limits against cases that can be worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import fields, replace
from math import inf

import pytest

from tests.load.limits.counted import CONTENT, INDEXING, PLACES, Counted, Spent, count_units, place_of
from tests.load.limits.demand import Limit, Workload, limits, workload
from tests.load.limits.journey import BEDROCK, DOMAIN, GATEWAY, LAMBDA, PARTITION, simulate
from tests.load.limits.quotas import Quotas, Site, Speeds
from tests.load.limits.simulation import Bucket, Events, Functions, Process, Servers, arrivals, starting

# All but none: a speed divides.
NOTHING = Speeds(*[1e-9] * len(fields(Speeds)))
EVERYTHING = Quotas(
    gateway_rate=1e9, gateway_burst=1e9, concurrency=1e9, environments_at_once=1e9, environments_a_second=1e9,
    partition_writes=1e9, partition_reads=1e9, new_table_writes=1e9, new_table_reads=1e9, embedding_tokens_a_minute=1e9,
)  # fmt: skip


def units(place: str, amount: float) -> dict[str, float]:
    return dict.fromkeys(PLACES, 0.0) | {place: amount}


def work(
    spent: Mapping[str, Spent],
    quotas: Quotas = EVERYTHING,
    speeds: Speeds = NOTHING,
    site: Site | None = None,
    row_bytes: float = 0.0,
) -> Workload:
    """Requests of each kind in equal parts; indexing costs nothing."""
    counted = Counted({INDEXING: Spent(), **spent}, row_bytes)
    return workload(counted, quotas, speeds, site or Site(vcpus=1e6), dict.fromkeys(spent, 1.0))


def named(found: list[Limit], name: str) -> Limit:
    (limit,) = [each for each in found if each.name == name]
    return limit


def test_functions_running_are_rate_times_duration() -> None:
    """Little's law: 100 a second of 0.2 s each are 20 at once."""
    outcome = simulate(work({"export": Spent()}, speeds=replace(NOTHING, overhead=0.2)), 100, 20, 5, evenly=True)
    assert outcome.mean_running == pytest.approx(20, rel=0.01)
    assert outcome.most_running in (20, 21)
    assert outcome.rate == pytest.approx(100, rel=0.01)
    assert not outcome.refused


def lost(offered: float, servers: int) -> float:
    """Erlang's share of calls that find all servers busy."""
    share = 1.0
    for number in range(1, servers + 1):
        share = offered * share / (number + offered * share)
    return share


def test_what_finds_no_free_function_is_refused_as_erlang_says() -> None:
    """40 a second of 0.2 s are eight at once on the mean; of ten functions 12 % of them find none."""
    quotas = replace(EVERYTHING, concurrency=10)
    tight = work({"export": Spent()}, quotas, replace(NOTHING, overhead=0.2))
    assert named(limits(tight), "Lambda concurrency, account").full_at() == pytest.approx(10 / 0.2)
    outcome = simulate(tight, 40, 1_000, 10)
    assert lost(8, 10) == pytest.approx(0.1217, abs=0.0001)
    assert outcome.most_running == 10
    assert set(outcome.refused) == {LAMBDA}
    came = outcome.answered + outcome.refused[LAMBDA]
    assert outcome.refused[LAMBDA] / came == pytest.approx(lost(8, 10), rel=0.05)


def test_a_partition_takes_a_thousand_write_units_a_second() -> None:
    """Of seven units a request it takes 1000 / 7."""
    quotas = replace(EVERYTHING, partition_writes=1_000)
    hot = work({"ingest": Spent(writes=units(CONTENT, 7))}, quotas)
    assert named(limits(hot), "One vault, writes of its rows").full_at() == pytest.approx(1_000 / 7)
    outcome = simulate(hot, 300, 40, 15, evenly=True)
    assert outcome.rate == pytest.approx(1_000 / 7, rel=0.02)
    assert set(outcome.refused) == {PARTITION}
    # The patience of a request is five seconds, waiting included.
    assert max(outcome.latencies) <= 5.001


def test_many_vaults_do_not_share_a_partition() -> None:
    quotas = replace(EVERYTHING, partition_writes=1_000)
    spread = work({"ingest": Spent(writes=units(CONTENT, 7))}, quotas, site=Site(vcpus=1e6, hottest=0.001))
    assert named(limits(spread), "One vault, writes of its rows").full_at() == pytest.approx(1_000_000 / 7)
    outcome = simulate(spread, 300, 20, 5, evenly=True)
    assert not outcome.refused


def test_the_gateway_lets_its_burst_and_its_rate_through() -> None:
    """5,000 kept tokens and one second's 10,000, of 20,000 requests."""
    quotas = replace(EVERYTHING, gateway_rate=10_000, gateway_burst=5_000)
    outcome = simulate(work({"export": Spent()}, quotas), 20_000, 1, 0, evenly=True)
    assert outcome.answered == pytest.approx(15_000, abs=2)
    assert outcome.refused.total() == outcome.refused[GATEWAY] == 20_000 - outcome.answered


def test_environments_grow_by_a_hundred_a_second_after_the_first_thousand() -> None:
    functions = Functions(concurrency=10_000, at_once=1_000, a_second=100)
    came = [functions.enter("search", 0.0) for _ in range(1_200)]
    assert came.count(True) == 1_000
    assert [functions.enter("search", 5.0) for _ in range(600)].count(True) == 500
    # Another function grows by itself, and who leaves makes room for who comes.
    assert functions.enter("ingest", 5.0) is True
    functions.leave("search")
    assert functions.enter("search", 5.0) is False


def test_a_single_server_makes_the_documented_queue() -> None:
    """M/D/1 at a load of 0.8: the mean wait is 0.8 / (2 × 0.2) = 2 services."""
    events, server, waits = Events(), Servers(1), []

    def customer(began: float) -> Process:
        served = server.reserve(began, 1.0, inf)
        assert served is not None
        waits.append(served - 1.0)
        yield served

    events.start(starting(events, arrivals(0.8, 200_000, random.Random(5)), customer), 0.0)
    events.run()
    assert sum(waits) / len(waits) == pytest.approx(2.0, rel=0.05)


def test_the_search_domain_serves_its_cpus_worth() -> None:
    """Four vCPUs and 100 ms a search: 40 searches a second, and nobody waits longer than three seconds."""
    searching = work({"search": Spent()}, speeds=replace(NOTHING, search=0.1), site=Site(vcpus=4))
    assert named(limits(searching), "Search domain, CPU").full_at() == pytest.approx(40)
    outcome = simulate(searching, 80, 40, 15)
    assert outcome.rate == pytest.approx(40, rel=0.03)
    assert set(outcome.refused) == {DOMAIN}
    assert max(outcome.latencies) <= 3.2


def test_without_tokens_left_searches_go_on_by_words() -> None:
    """600 tokens a minute are ten a second; at twelve tokens a query 8.3 of ten searches have a vector, sooner or later
    than the patience."""
    quotas = replace(EVERYTHING, embedding_tokens_a_minute=600)
    outcome = simulate(work({"search": Spent()}, quotas), 10, 300, 60, evenly=True)
    assert not outcome.refused
    assert outcome.worse[BEDROCK] == pytest.approx(300 * (10 - 10 / 12), rel=0.05)


def test_checkouts_of_one_vault_follow_each_other() -> None:
    one = work({"checkout": Spent()}, speeds=replace(NOTHING, checkout_alone=0.05))
    assert named(limits(one), "One vault, checkouts of a tier").full_at() == pytest.approx(20)
    assert simulate(one, 40, 60, 30, evenly=True).rate == pytest.approx(20, rel=0.02)


def test_reads_of_recent_rows_grow_with_the_rate_until_a_megabyte() -> None:
    """Half searches, half ingests of one row of 4,096 bytes: after a minute at r requests a second a search reads 30 r
    units, at most 256. The partition's 3,000 are used up where 0.5 r × 30 r = 3,000, that is at √200."""
    quotas = replace(EVERYTHING, partition_reads=3_000)
    mix = work({"search": Spent(), "ingest": Spent(rows=1)}, quotas, row_bytes=4_096)
    assert named(limits(mix), "One vault, reads of its rows").full_at() == pytest.approx(3_000 / (0.5 * 256))
    smaller = replace(mix, row_bytes=409.6)
    assert smaller.tail_units(10) == pytest.approx(30)
    few = replace(quotas, partition_reads=300)
    assert named(limits(replace(smaller, quotas=few)), "One vault, reads of its rows").full_at() == pytest.approx(
        200**0.5
    )


def test_a_bucket_forgets_nothing_and_keeps_no_more_than_it_holds() -> None:
    bucket = Bucket(rate=10, most=20)
    assert [bucket.reserve(0, 20, 1), bucket.reserve(0, 5, 1), bucket.reserve(0, 10, 1)] == [0, 0.5, None]
    assert bucket.reserve(100, 20, 0) == 0
    assert not bucket.take(100)


def test_a_limit_that_nobody_touches_is_never_reached() -> None:
    assert Limit("", 1, "", lambda rate: 0.0, "", "").full_at() == inf


def test_the_same_seed_gives_the_same_outcome() -> None:
    busy = work({"search": Spent()}, speeds=replace(NOTHING, search=0.1), site=Site(vcpus=4))
    assert simulate(busy, 50, 10, seed=3).latencies == simulate(busy, 50, 10, seed=3).latencies
    assert simulate(busy, 50, 10, seed=3).latencies != simulate(busy, 50, 10, seed=4).latencies


@pytest.mark.parametrize(
    ("key", "place"),
    [("V#a#1", "vault content"), ("V#a", "vault record"), ("K#abc", "key record"), ("U#abc", "usage")],
)
def test_places_are_told_by_the_key(key: str, place: str) -> None:
    assert place_of(key) == place


def test_units_are_those_of_the_developer_guide() -> None:
    """Rows below 1 KB in a session: 2 units in a transaction and 3 index entries each, and 2 for the counters."""
    spent = count_units(rows=30, times=1).spent
    assert spent["ingest"].writes[CONTENT] == 3 * (2 + 3) + 2
    assert spent["upload"].writes[CONTENT] == 12 * (2 + 2) + 2
    assert spent["checkout"].writes[CONTENT] == 3 * 2
    assert spent["commit again"].writes == dict.fromkeys(PLACES, 0.0)
    # Ten rows of less than 4 KB, the debt, the rows of the last minute, none.
    assert 11 <= spent["search"].reads[CONTENT] <= 13
    for operation in spent.keys() - {INDEXING}:
        assert spent[operation].reads["key record"] == 1
