"""The end of the page: what its numbers are made of."""

from __future__ import annotations

from infra.costs import assumptions as assume
from infra.costs.bill import Deployment
from infra.costs.prices import KNOWN
from infra.costs.tables import plain, table

COUNTS = {
    "requests": "table_requests",
    "read units": "read_units",
    "write units": "write_units",
    "searches": "searches",
    "tokens": "embedded_tokens",
    "answer bytes": "answer_bytes",
}


def counts(dev: Deployment, prod: Deployment) -> str:
    of = prod.measured
    rows = []
    for name, parts in of.counts.items():
        then = parts["indexing"]
        after = [f"{then['calls']:,.0f}", f"{then['read_units']:,.0f}"] if then["calls"] else ["", ""]
        rows.append([name, *(f"{parts['answer'][each]:,.0f}" for each in COUNTS.values()), *after])
    timed = [
        [name, f"{each.answer.cpu_ms:.1f}", f"{each.answer.log_bytes:.0f}", f"{each.indexing.cpu_ms:.1f}"]
        for name, each in of.operations.items()
    ]
    sizes = [[name.replace("_", " "), f"{size:,}"] for name, size in of.stored_bytes.items()]
    return f"""## Counted

Every operation ran through the deployed handlers on a table in memory that charges as DynamoDB does, in a vault of
1,000 memories. The usage meter is in it, and where nothing else is written the note of the key's last use, which is
made once an hour. Numbers in names are rows. A test counts again and compares.

{table(["operation", *COUNTS, "indexer calls", "their read units"], rows)}

Bytes in the table, with index entries and what is billed beside them:

{table(["", "bytes"], sizes)}

Milliseconds of a processor, with the clients of the table, the search store and the model, and bytes of log; measured
on one machine and scaled by memory, {assume.CPU_MB:,} MB being one processor. {of.machine}.

{table(["operation", "ms", "log bytes", "ms of indexing"], timed)}"""


def listed(dev: Deployment, prod: Deployment) -> str:
    rows = [
        [f"`{each.name}`", plain(each.usd), each.unit, KNOWN[each.known], each.source]
        for each in prod.prices.by_name.values()
    ]
    return f"""## Prices

{prod.prices.region}, {prod.prices.date}. Compare them with the price pages before you rely on them.

{table(["", "US dollars", "for one", "known", "source"], rows, numbers=False)}"""


def assumed(dev: Deployment, prod: Deployment) -> str:
    rows = [[f"`{name}`", plain(each.value), each.unit, each.why] for name, each in assume.named().items()]
    searches = ", ".join(f"{ms:g} ms among {chunks:,}" for chunks, ms in assume.SEARCH_MS)
    return f"""## Assumptions

{table(["", "value", "", "what"], rows, numbers=False)}

A search takes {searches} chunks, and between these what lies between. The last is from
[benchmarks.md](benchmarks.md), the others are from the same bench on a busy machine, so rather too long. Left out:
taxes, support, reserved capacity, free allowances, cold starts, retries, and the model that writes reflections."""
