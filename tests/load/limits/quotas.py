"""Limits that AWS sets, as its documentation stated them in 2026, and speeds that nobody promises.

Quotas are of one account and region. `CHECKED` names those that were read in the documentation when this was written;
the others are from memory, and Service Quotas shows what an account really has.
"""

from __future__ import annotations

from dataclasses import dataclass

CHECKED = frozenset(
    (
        "gateway_rate",
        "gateway_burst",
        "concurrency",
        "requests_an_environment",
        "environments_at_once",
        "environments_a_second",
        "partition_writes",
        "partition_reads",
        "new_table_writes",
        "new_table_reads",
        "table_writes",
        "table_reads",
    )
)


@dataclass(frozen=True, slots=True)
class Quotas:
    """Rates are a second. A partition is DynamoDB's; a vault is one, since a table with local indexes does not split
    the rows of one key. An on-demand table takes twice its earlier peak within half an hour; new ones begin with
    `new_table_*`, and `table_*` is the quota.
    """

    gateway_rate: float = 10_000
    gateway_burst: float = 5_000
    concurrency: float = 1_000
    environments_at_once: float = 1_000
    environments_a_second: float = 100
    requests_an_environment: float = 10
    partition_writes: float = 1_000
    partition_reads: float = 3_000
    new_table_writes: float = 4_000
    new_table_reads: float = 12_000
    table_writes: float = 40_000
    table_reads: float = 40_000
    embedding_tokens_a_minute: float = 300_000


NEW_ACCOUNT_CONCURRENCY = 10


@dataclass(frozen=True, slots=True)
class Speeds:
    """What takes how long, in seconds. Assumed for AWS unless said otherwise; arguments replace them.

    `search` is CPU of the domain a search among 20,000 passages (measured: docs/benchmarks.md), `passage` that of
    indexing one, words and vector (measured there too). `checkout_alone` is how long one checkout keeps a tier of a
    vault from every other: its ledger is read, and written if nobody wrote it meanwhile. `index_lane` is how long the
    stream's records of one vault occupy their indexer for one passage: they are handled in their order.
    """

    overhead: float = 0.010
    read: float = 0.005
    write: float = 0.012
    embedding: float = 0.080
    search: float = 0.152
    passage: float = 1 / 227
    index_lane: float = 1 / 227
    checkout_alone: float = 0.050
    cold_start: float = 1.5


@dataclass(frozen=True, slots=True)
class Site:
    """What was deployed: vCPUs of the search domain's data nodes, whether the table is new, and who asks.

    `hottest` is the share of all requests that goes to the vault with the most, 1 for a single one.
    """

    vcpus: float = 4
    new_table: bool = True
    hottest: float = 1.0

    def table_writes(self, quotas: Quotas) -> float:
        return quotas.new_table_writes if self.new_table else quotas.table_writes

    def table_reads(self, quotas: Quotas) -> float:
        return quotas.new_table_reads if self.new_table else quotas.table_reads
