"""The bill: against sums worked by hand, and against what any bill must do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.costs import assumptions as assume
from infra.costs import bill, measured, page, prices, stores
from infra.costs.__main__ import main
from infra.costs.bill import Deployment, Usage, WrongUsage
from infra.costs.domain import Domain, configured, grown
from infra.costs.measured import Measured, Operation, Part
from infra.costs.prices import WrongPrices
from infra.functions import FUNCTIONS, Function
from tests.bench import units

MILLION = 1_000_000
NOTHING = Part(*(0 for _ in fields(Part)))
amounts = st.floats(0, 1e8)


@pytest.fixture(scope="module")
def prod() -> Deployment:
    return page.deployment("prod")


def usages() -> st.SearchStrategy[Usage]:
    vaults, ingest = st.floats(1, 1e5), st.sampled_from((1, 25))
    return st.builds(Usage, amounts, amounts, amounts, amounts, vaults, ingest)


@pytest.mark.slow
def test_the_file_holds_what_is_counted_now() -> None:
    held = json.loads(measured.FILE.read_text("utf-8"))
    held.pop("times")
    assert json.loads(json.dumps(units.counted())) == held, "count again: python -m tests.bench.units --counts"


def test_counts_are_those_that_the_guide_asks_for(prod: Deployment) -> None:
    """Units by the developer guide: strong reads of up to 4 KB are 1, a transaction doubles writes but not indexes."""
    search = prod.measured.counts["search"]["answer"]
    key, vault, recent, counters, rows = 1, 1, 1, 1, 10
    assert search["read_units"] == key + vault + recent + counters + rows
    meter, last_use = 1, 1
    assert search["write_units"] == meter + last_use
    ingest = prod.measured.counts["ingest_25"]["answer"]
    row, indexes, counted = 2, 3, 2
    assert ingest["write_units"] == 25 * (row + indexes) + counted + meter
    indexing = prod.measured.counts["ingest_25"]["indexing"]
    assert indexing["write_units"] == 0
    assert indexing["embedded_texts"] == 25
    assert indexing["documents"] == 2 * 25


def test_every_operation_is_timed(prod: Deployment) -> None:
    for operation in prod.measured.operations.values():
        assert operation.answer.cpu_ms > 0
        assert operation.answer.log_bytes > 0


def test_the_page_is_what_would_be_written_now() -> None:
    assert main(["--check"]) == 0


def _list(path: Path, changes: Mapping[str, str] | None = None) -> Path:
    text = prices.LIST.read_text("utf-8")
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text, "utf-8")
    return path


def _priced(**usd: float) -> prices.Prices:
    """Our list at a dollar for everything, but for these."""
    listed = prices.read()
    one = {name: replace(each, usd=usd.get(name, 1.0)) for name, each in listed.by_name.items()}
    return replace(listed, by_name=one)


def _example() -> Deployment:
    """Numbers that can be worked by hand, at a dollar for every unit."""
    answer = replace(
        NOTHING, calls=1, table_requests=8, read_units=16.0, write_units=3, searches=2, search_requests=2,
        embedded_texts=1, embedded_tokens=10, answer_bytes=6_000, cpu_ms=50.0, log_bytes=540.0,
    )  # fmt: skip
    indexing = replace(NOTHING, calls=1, table_requests=20, embedded_texts=25, cpu_ms=80.0, log_bytes=370.0)
    functions = {"search": Function("search", memory=1024), "indexer": Function("indexer", memory=1769)}
    found = Measured(
        {"search": Operation("search", "search", answer, indexing)}, {}, sources=100, entries=10, characters=420,
        machine="by hand", counts={},
    )  # fmt: skip
    return Deployment(_priced(), found, Domain("t3.small.search", 1, 20, 1), log_days=30, functions=functions)


def test_a_call_worked_by_hand() -> None:
    on = _example()
    lines = bill.call(on, on.measured.operations["search"], 500)
    # Its own 50 ms at 1024/1769 of a processor, 8 × 5 ms for the table, 100 ms for the model, 48.9 ms for the store.
    answering = (50 * 1769 / 1024 + 8 * 5 + 100 + 48.9) / 1000 * 1.0
    # 80 ms on a whole processor, 20 × 5 ms, four rounds of 100 ms for 25 texts, 25 chunks at 227 a second.
    indexing = (80 + 20 * 5 + 4 * 100 + 25 * 1000 / 227) / 1000 * 1769 / 1024
    # Access log 330; 540 and 370 with 130 bytes of ids each; a dollar to take in and a dollar to keep a month.
    logged = (330 + 540 + 130 + 370 + 130) * 2
    assert lines == pytest.approx(
        {
            "API requests": 1 / MILLION,
            "answers sent": 6_000 / 1e9,
            "logs": logged / 1e9,
            "function calls": 2 / MILLION,
            "function time": answering + indexing,
            "table reads": 16 / MILLION,
            "table writes": 3 / MILLION,
            "embeddings": 10 / MILLION,
        }
    )


def test_an_answer_counts_once_for_every_512_kib() -> None:
    on = _example()
    of = on.measured.operations["search"]
    for size, requests in ((0, 1), (524_288, 1), (524_289, 2)):
        lines = bill.call(on, replace(of, answer=replace(of.answer, answer_bytes=size)), 500)
        assert lines["API requests"] == pytest.approx(requests / MILLION)


def test_fixed_costs_worked_by_hand() -> None:
    on = _example()
    sweep = 0.1 * 1769 / 1024
    assert bill.fixed(on) == pytest.approx(
        {
            "search domain": 730 + 20,
            "key": 1 + 2 * 730 * 12 / MILLION,
            "metrics": 13,
            "alarms": 35,
            "dashboard": 1,
            "sweeps": 8_760 / MILLION + 8_760 * sweep,
        }
    )


@given(usages(), st.sampled_from(("memories", "retrievals", "messages", "consolidations")), amounts)
def test_more_use_never_costs_less(prod: Deployment, usage: Usage, what: str, more: float) -> None:
    further = replace(usage, **{what: getattr(usage, what) + more})
    assert bill.total(bill.month(prod, further)) >= bill.total(bill.month(prod, usage)) * (1 - 1e-12)
    for store in stores.STORES.values():
        assert store(prod, further) >= store(prod, usage) * (1 - 1e-12)


def test_nobody_costs_what_is_fixed(prod: Deployment) -> None:
    for environment in page.ENVIRONMENTS:
        on = page.deployment(environment)
        assert bill.total(bill.month(on, Usage())) == pytest.approx(bill.total(bill.fixed(on)))


def test_every_price_of_the_list_is_somebodys(prod: Deployment) -> None:
    """A price that moves nothing would be a line forgotten."""

    def everything(listed: prices.Prices) -> float:
        found = 0.0
        for environment in page.ENVIRONMENTS:
            on = replace(page.deployment(environment), prices=listed)
            usage = Usage.typical(MILLION)
            found += bill.total(bill.month(on, usage)) + sum(store(on, usage) for store in stores.STORES.values())
        return found

    before = everything(prod.prices)
    for name, each in prod.prices.by_name.items():
        dearer = {**prod.prices.by_name, name: replace(each, usd=2 * each.usd)}
        assert everything(replace(prod.prices, by_name=dearer)) > before, name


def test_a_million_searches_among_a_million_memories_cost_at_most_eight_dollars(prod: Deployment) -> None:
    lines = page.million(prod, "search")
    assert bill.total(lines) <= 8.00
    assert "among a million memories: met." in page.PAGE.read_text("utf-8")
    # Nothing is left out: every kind of cost that a call has.
    assert all(usd > 0 for usd in lines.values())
    assert len(lines) == 8


def test_the_size_of_search_that_is_deployed_is_on_the_page(prod: Deployment) -> None:
    sizes = {size: (ms, usd) for size, ms, usd in page.sizes_of_search(prod)}
    assert sizes[FUNCTIONS["search"].memory][1] == pytest.approx(bill.total(page.million(prod, "search")))
    # More memory answers sooner, up to a whole processor.
    assert [ms for ms, _ in sizes.values()] == sorted((ms for ms, _ in sizes.values()), reverse=True)


def test_the_domain_is_the_one_that_is_deployed(tmp_path: Path) -> None:
    described = {"search": {"instance": "t3.small.search", "nodes": 5, "volume": 20}, "log_days": 7}
    file = tmp_path / "cdk.json"
    file.write_text(json.dumps({"context": {"environments": {"mine": described}}}), "utf-8")
    assert configured("mine", file) == (Domain("t3.small.search", 5, 20, 3), 7)


def test_a_domain_worked_by_hand() -> None:
    domain = Domain("r7g.large.search", 3, 100, 3)
    # Half of 16 GB a node, three nodes for three copies: one node's worth of vectors of 8,192 bytes.
    assert domain.chunks == pytest.approx(8e9 / 8_192)
    # Six processors, 60 % of each, 48.9 ms a search.
    assert domain.searches_a_second(500) == pytest.approx(6 * 0.6 / 0.0489)
    assert grown(domain, 1_000_000, 0, 500).nodes == 4
    assert grown(domain, 0, 0, 500) == domain
    # 100 million a month are 38 a second, three times that at the peak.
    assert grown(domain, 0, 100 * MILLION, 500).nodes == 5
    # 900,000 chunks of 41,600 bytes in every one of three copies, 70 % of a volume used.
    small = replace(domain, volume=10)
    assert grown(small, 900_000, 0, 500).volume == 54


def test_searches_take_what_was_measured() -> None:
    for chunks, ms in assume.SEARCH_MS:
        assert assume.search_ms(chunks) == pytest.approx(ms)
    assert assume.search_ms(0) == 48.9
    assert assume.search_ms(3_000) == pytest.approx((76.9 + 121.9) / 2)
    assert assume.search_ms(35_000) == pytest.approx(151.7 + (151.7 - 121.9))


def test_a_collection_is_awake_after_requests() -> None:
    assert stores.awake_hours(0) == 0
    # One request keeps it awake for 14 minutes.
    assert stores.awake_hours(1) == pytest.approx(14 / 60, rel=1e-3)
    assert stores.awake_hours(1e9) == pytest.approx(730)


def test_vectors_worked_by_hand(prod: Deployment) -> None:
    on = replace(prod, prices=_priced())
    one = stores.dynamodb_vectors(on, Usage(retrievals=MILLION))
    assert one == pytest.approx(MILLION * (60_560 + 100 * 566) / 1e9)
    held = stores.dynamodb_vectors(on, Usage(memories=1_000))
    assert held == pytest.approx(1_200 * (4_973 + 2 * 4_300) / 1e9)


def test_three_copies_are_what_prod_has() -> None:
    assert configured("prod")[0] == stores.THREE_COPIES


def test_stores_change_places_where_the_page_says(prod: Deployment) -> None:
    at = stores.crossover(prod, 1_000, stores.serverless, stores.one_copy)
    assert at is not None
    for retrievals, first in ((at * 0.99, True), (at * 1.01, False)):
        usage = stores.usage_of(1_000, retrievals)
        assert (stores.serverless(prod, usage) <= stores.one_copy(prod, usage)) is first
    assert stores.crossover(prod, 1_000, stores.three_copies, stores.one_copy) == 0
    assert stores.crossover(prod, 1_000, stores.one_copy, stores.three_copies) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"usd = 0.625\n": ""}, "prices.dynamodb_write has no usd"),
        ({"usd = 0.625": "usd = -1"}, "prices.dynamodb_write.usd is -1; it must be a number of dollars, 0 or more"),
        ({"usd = 0.625": 'usd = "free"'}, "prices.dynamodb_write.usd is 'free'"),
        ({"usd = 0.625": "usd = nan"}, "prices.dynamodb_write.usd is nan"),
        ({"usd = 0.625": "usd = true"}, "prices.dynamodb_write.usd is True"),
        ({"usd = 0.625": "eur = 0.625"}, "prices.dynamodb_write has an unknown key eur"),
        ({"[prices.dynamodb_write]": "[prices.dynamodb_wirte]"}, "no price for dynamodb_write"),
        ({"[prices.http_api]": "[prices.htp_api]\nusd=1\nunit='a'\nsource='b'\nknown='read'\n[prices.http_api]"},
         "unknown price htp_api; did you mean http_api?"),
        ({'known = "read"': 'known = "sure"'}, "known is 'sure'; it must be one of read, memory, assumed"),
        ({'date = "2026-12-01"': ""}, "the list has no date"),
        ({'date = "2026-12-01"': "tax = 1"}, "unknown key tax"),
        ({"usd = 0.625": "usd ="}, "is no TOML"),
    ],
)  # fmt: skip
def test_a_wrong_list_says_what_is_wrong(
    tmp_path: Path, changes: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _list(tmp_path / "mine.toml", changes)
    with pytest.raises(WrongPrices) as refused:
        prices.read(file)
    assert message in str(refused.value)
    assert main(["--prices", str(file), "--memories", "10"]) == 2
    assert message in capsys.readouterr().err


def test_a_list_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(WrongPrices, match="No such file"):
        prices.read(tmp_path / "none.toml")


def test_an_instance_without_a_price_says_so(prod: Deployment) -> None:
    with pytest.raises(WrongPrices, match=r'no price for m7g.large.search: add \[prices."m7g.large.search"\]'):
        Domain("m7g.large.search", 1, 10, 1).usd(prod.prices)
    with pytest.raises(WrongPrices, match=r"processors and memory of m7g\.large\.search"):
        grown(Domain("m7g.large.search", 1, 10, 1), 0, 0, 500)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_wrong_month_says_what_is_wrong(wrong: float, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WrongUsage, match="retrievals is"):
        Usage(retrievals=wrong)
    assert main([f"--retrievals={wrong}"]) == 2
    assert "retrievals is" in capsys.readouterr().err
    with pytest.raises(WrongUsage, match="a vault of"):
        Usage(vault_memories=wrong)
    with pytest.raises(WrongUsage, match="ingests of 7"):
        Usage(ingest=7)


def test_ones_own_month_is_printed(capsys: pytest.CaptureFixture[str], prod: Deployment) -> None:
    assert main(["--memories", "1000", "--retrievals", "0", "--messages", "0", "--consolidations", "0"]) == 0
    printed = capsys.readouterr().out
    held = bill.total(bill.fixed(prod)) + 1_000 * prod.stored_bytes / 1e9 * (0.25 + 0.20)
    assert f"| **sum** | **{held:.2f}** |" in printed


def test_ones_own_prices_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _list(
        tmp_path / "mine.toml", {"usd = 3.00\nunit = 'dashboard".replace("'", '"'): 'usd = 7\nunit = "dashboard'}
    )
    assert main(["--prices", str(file), "--memories", "0"]) == 0
    assert "| dashboard | 7.00 |" in capsys.readouterr().out


def test_a_stale_page_is_noticed_and_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "costs.md"
    assert main(["--check"], target) == 1
    assert "costs.md is stale: run `python -m infra.costs`" in capsys.readouterr().err
    assert main([], target) == 0
    assert main(["--check"], target) == 0
    target.write_text(target.read_text("utf-8") + "more", "utf-8")
    assert main(["--check"], target) == 1
