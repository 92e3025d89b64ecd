"""``docs/costs.md``, every number of it computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from infra.costs import appendix, bill, domain, measured, prices, stores
from infra.costs import assumptions as assume
from infra.costs.assumptions import MILLION
from infra.costs.bill import Deployment, Lines, Usage
from infra.costs.prices import Prices
from infra.costs.tables import dollars, lines_table, rounded, table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "costs.md"
ENVIRONMENTS = ("dev", "prod")
SIZES = (1_000, 100_000, 10_000_000)
TARGET = 8.0
"""Dollars for a million retrievals among a million memories, at most."""
VAULT = 1_000
LARGE_VAULT = 20_000

Section = Callable[[Deployment, Deployment], str]
"""Of the two environments ``dev`` and ``prod``."""


def deployment(environment: str, listed: Prices | None = None) -> Deployment:
    chosen, log_days = domain.configured(environment)
    return Deployment(listed or prices.read(), measured.read(), chosen, log_days)


def million(on: Deployment, operation: str, vault: float = VAULT) -> Lines:
    """Dollars for a million calls in vaults of so many memories."""
    of = on.measured.operations[operation]
    return bill.times(bill.call(on, of, vault * on.chunks_a_memory), MILLION)


def sizes_of_search(on: Deployment) -> list[tuple[int, float, float]]:
    """Memory of `search` in MB, the milliseconds that one call then takes, and the dollars of a million."""
    answer = on.measured.operations["search"].answer
    searched = assume.search_ms(VAULT * on.chunks_a_memory)
    return [
        (size, bill.billed_ms(answer, size, searched), bill.total(million(on.sized(size, "search"), "search")))
        for size in sorted({512, 768, 1_024, 1_769, on.functions["search"].memory})
    ]


def text(listed: Prices | None = None) -> str:
    dev, prod = (deployment(name, listed) for name in ENVIRONMENTS)
    sections: tuple[Section, ...] = (
        _intro, _months, _retrievals, _writes, _stores, _limits, _rerun,
        appendix.counts, appendix.listed, appendix.assumed,
    )  # fmt: skip
    return "\n\n".join(section(dev, prod) for section in sections) + "\n"


def _intro(dev: Deployment, prod: Deployment) -> str:
    idle, used = dollars(bill.total(bill.fixed(dev))), dollars(bill.total(bill.fixed(prod)))
    each = dollars(bill.total(million(prod, "search")))
    return f"""# Costs

Written by `python -m infra.costs`; do not edit. US dollars a month, list prices of {prod.prices.region} as of
{prod.prices.date}, nothing free and nothing discounted. Requests and units are counted on the deployed handlers, times
are measured, and what is neither stands at the end as an assumption.

The search domain is nearly all of it: an environment that nobody uses costs {idle} a month as `dev` and {used} as
`prod`. A million retrievals cost {each} on top."""


def _months(dev: Deployment, prod: Deployment) -> str:
    columns: dict[str, Lines] = {}
    for name, on, sizes in (("dev", dev, SIZES[:2]), ("prod", prod, SIZES)):
        columns |= {f"`{name}`, {size:,}": bill.month(on, Usage.typical(size)) for size in sizes}
    batch = prod.measured
    return f"""## A month

By memories held, in vaults of {VAULT:,}. For every 1,000 memories, 100 new ones come in a month, 25 a request; they are
consolidated {batch.sources} at a time into {batch.entries} reflections, and there are 300 retrievals. A memory has
{batch.characters} characters; with its index entries, its share of reflections and batches it takes
{prod.stored_bytes:,.0f} bytes in the table. The domain gets the nodes that its vectors need.

{lines_table(columns)}"""


def _retrievals(dev: Deployment, prod: Deployment) -> str:
    columns = {
        f"search, vaults of {VAULT:,}": million(prod, "search"),
        f"search, vaults of {LARGE_VAULT:,}": million(prod, "search_large_vault", LARGE_VAULT),
        "prepare, 30 rows": million(prod, "prepare"),
    }
    each = bill.total(columns[f"search, vaults of {VAULT:,}"])
    met = "met" if each <= TARGET else f"**missed by {dollars(each - TARGET)}**"
    chosen = prod.functions["search"].memory
    sizes = [
        [f"{size:,} MB" + (", as deployed" if size == chosen else ""), f"{ms:.0f}", dollars(usd)]
        for size, ms, usd in sizes_of_search(prod)
    ]
    volumes = []
    chunks, of_a_vault = MILLION * prod.chunks_a_memory, VAULT * prod.chunks_a_memory
    for retrievals in (MILLION, 10 * MILLION, 100 * MILLION):
        has = domain.grown(prod.domain, chunks, retrievals, of_a_vault)
        held = bill.added((bill.fixed(replace(prod, domain=has)), bill.kept(prod, Usage(MILLION))))
        share = bill.total(held) / retrievals * MILLION
        volumes.append([f"{retrievals:,}", str(has.nodes), dollars(share), dollars(share + each)])
    return f"""## A million retrievals

What they cost beside an environment that runs anyway. The target is {TARGET:.2f} among a million memories: {met}.

{lines_table(columns)}

Each is the only one of its key within an hour, so that it also notes the key's last use; one that follows has a write
unit and a request to the table less. The function mostly waits, so that its memory decides:

{table(["memory of `search`", "ms of a call", "a million searches"], sizes)}

With the fixed costs of `prod` spread over them, a million memories held:

{table(["retrievals a month", "nodes", "fixed costs, a million", "all, a million"], volumes)}"""


def _writes(dev: Deployment, prod: Deployment) -> str:
    columns = {
        "25 a request": bill.times(million(prod, "ingest_25"), 1 / 25),
        "1 a request": million(prod, "ingest_1"),
    }
    consolidation = bill.added(million(prod, name) for name in ("checkout_100", "commit_100_to_10"))
    return f"""## A million ingested messages

With the indexing that follows.

{lines_table(columns)}

## A thousand consolidations

Each takes {prod.measured.sources} memories and writes {prod.measured.entries} reflections: checkout, commit, settling,
and the indexing of the reflections. The model that writes them is the client's.

{lines_table({"checkout and commit": bill.times(consolidation, 0.001)})}"""


def _stores(dev: Deployment, prod: Deployment) -> str:
    grid = []
    for memories in (1_000, 100_000, MILLION, 10 * MILLION):
        for retrievals in (1_000, 100_000, 10 * MILLION):
            usage = stores.usage_of(memories, retrievals)
            usd = {name: store(prod, usage) for name, store in stores.STORES.items()}
            least = min(usd.values())
            shown = [f"**{dollars(each)}**" if each == least else dollars(each) for each in usd.values()]
            grid.append([f"{memories:,}", f"{retrievals:,}", *shown])
    pairs = {
        "serverless → one copy": (stores.serverless, stores.one_copy),
        "serverless → three copies": (stores.serverless, stores.three_copies),
        "vectors → one copy": (stores.dynamodb_vectors, stores.one_copy),
        "vectors → three copies": (stores.dynamodb_vectors, stores.three_copies),
        "vectors → serverless": (stores.dynamodb_vectors, stores.serverless),
    }
    crossings = [
        [f"{memories:,}", *(_crossing(prod, memories, *pair) for pair in pairs.values())]
        for memories in (1_000, 100_000, MILLION)
    ]
    return f"""## Other search stores

The store alone; the cheapest in bold. Only the managed domain is built. *Managed, one copy* loses its index with its
node and has to rebuild it; *three copies* is `prod`. *Serverless* sleeps when nobody asks, and the first search after
that waits 10 to 30 seconds; whether a collection takes this index's scripted ranking was not tried.

*DynamoDB vectors* is the table's own vector search: at most {assume.VECTOR_HITS.value:.0f} results, filters by
equality, and by meaning alone, so its answers would be other ones. Its unit prices are **assumed**: no public price was
found. {_vector_price(prod)}

{table(["memories", "retrievals a month", *stores.STORES], grid)}

From how many retrievals a month, about, the second of two is the cheaper one:

{table(["memories", *pairs], crossings)}"""


def _vector_price(on: Deployment) -> str:
    """How wrong the assumption may be."""
    usage = stores.usage_of(MILLION, 10 * MILLION)
    unread = replace(usage, retrievals=0)
    searches = stores.dynamodb_vectors(on, usage) - stores.dynamodb_vectors(on, unread)
    room = stores.three_copies(on, usage) - stores.dynamodb_vectors(on, unread)
    return (
        f"With a million memories and ten million retrievals a month it is cheaper than `prod`'s domain as long as\n"
        f"searching costs less than {room / searches:.0f} times what is assumed."
    )


def _crossing(on: Deployment, memories: float, first: stores.Store, later: stores.Store) -> str:
    at = stores.crossover(on, memories, first, later)
    return "never" if at is None else rounded(at) if at else "always"


def _limits(dev: Deployment, prod: Deployment) -> str:
    rows = []
    for name, on in zip(ENVIRONMENTS, (dev, prod), strict=True):
        for vault in (VAULT, LARGE_VAULT):
            chunks = vault * on.chunks_a_memory
            rows.append([
                f"`{name}`, {on.domain.nodes} × {on.domain.instance}",
                f"{vault:,}",
                f"{assume.search_ms(chunks):.0f} ms",
                f"{on.domain.searches_a_second(chunks):.0f}",
                rounded(on.domain.chunks / on.chunks_a_memory),
            ])  # fmt: skip
    return f"""## When a domain is full

Searches a second that its processors stand, by memories in the vault that is searched, and memories whose vectors all
fit into its nodes' memory.

{table(["", "memories of a vault", "a search", "searches a second", "memories"], rows)}

An index has one shard, and every copy of it is whole. More nodes answer more searches; for more memories than fit into
one node the nodes have to be larger. The bill counts larger nodes in pieces of the same type, as they are priced."""


def _rerun(dev: Deployment, prod: Deployment) -> str:
    return """## With your own numbers

```sh
.venv/bin/python -m infra.costs --memories 250000 --retrievals 2000000             # your own month
.venv/bin/python -m infra.costs --memories 250000 --retrievals 2000000 --env dev   # with the domain of `dev`
cp infra/costs/prices.toml mine.toml                                               # change prices, then:
.venv/bin/python -m infra.costs --prices mine.toml --memories 250000 --retrievals 2000000
.venv/bin/python -m tests.bench.units                                              # count and measure again
```"""
