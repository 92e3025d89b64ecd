"""From usage to dollars: what one call costs, and what a month costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from infra.costs import assumptions as assume
from infra.costs.assumptions import CPU_MB, GB, HOURS, MILLION
from infra.costs.domain import Domain, grown
from infra.costs.measured import Measured, Operation, Part
from infra.costs.prices import Prices
from infra.functions import FUNCTIONS, INDEXER, Function

Lines = dict[str, float]
"""Dollars by what they are paid for."""


class WrongUsage(ValueError):
    """No month can look like that. The message says why."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A month. `memories` are held throughout, in vaults of `vault_memories`; `messages` come in, `ingest` at a time (1
    or 25); a consolidation takes 100 of them. All are spread evenly."""

    memories: float = 0
    retrievals: float = 0
    messages: float = 0
    consolidations: float = 0
    vault_memories: float = 1_000
    ingest: int = 25

    def __post_init__(self) -> None:
        for name in ("memories", "retrievals", "messages", "consolidations"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise WrongUsage(f"{name} is {value:g}; it must be a number of 0 or more")
        if not math.isfinite(self.vault_memories) or self.vault_memories < 1:
            raise WrongUsage(f"a vault of {self.vault_memories:g} memories: it must be a number of 1 or more")
        if self.ingest not in (1, 25):
            raise WrongUsage(f"ingests of {self.ingest} messages were not counted; take 1 or 25")

    @classmethod
    def typical(cls, memories: float) -> Usage:
        """The stated pattern: for every 1,000 memories held 100 new ones and 300 retrievals a month."""
        return cls(memories, 0.3 * memories, 0.1 * memories, 0.001 * memories)


@dataclass(frozen=True, slots=True)
class Deployment:
    """`functions` are their sizes; `log_days` is how long logs are kept."""

    prices: Prices
    measured: Measured
    domain: Domain
    log_days: int
    functions: Mapping[str, Function] = field(default_factory=lambda: FUNCTIONS)

    def sized(self, memory: int, *names: str) -> Deployment:
        """With another memory, in MB, for these functions."""
        changed = {name: replace(self.functions[name], memory=memory) for name in names}
        return replace(self, functions={**self.functions, **changed})

    @property
    def chunks_a_memory(self) -> float:
        """Passages of a raw memory and of its share of the reflections."""
        counted = self.measured.operations
        raw = counted["ingest_25"].indexing.embedded_texts / 25
        return raw + counted["commit_100_to_10"].indexing.embedded_texts / self.measured.sources

    @property
    def stored_bytes(self) -> float:
        """In the table for one raw memory, consolidated, with its share of reflections and batches."""
        of = self.measured.stored_bytes
        shared = self.measured.entries * of["reflection"] + of["batch_header"] + of["batch_sources"]
        return of["memory_consolidated"] + shared / self.measured.sources


def added(parts: Iterable[Mapping[str, float]]) -> Lines:
    total: Lines = {}
    for part in parts:
        for name, usd in part.items():
            total[name] = total.get(name, 0.0) + usd
    return total


def times(lines: Mapping[str, float], factor: float) -> Lines:
    return {name: usd * factor for name, usd in lines.items()}


def billed_ms(part: Part, memory: int, search_ms: float) -> float:
    """What a function of this memory is billed for: its own work at its share of a processor, and waiting."""
    waited = part.table_requests * assume.TABLE_MS.value
    waited += math.ceil(part.embedded_texts / assume.MODEL_AT_ONCE.value) * assume.MODEL_MS.value
    return part.cpu_ms * max(1.0, CPU_MB / memory) + waited + search_ms


def call(on: Deployment, operation: Operation, chunks: float) -> Lines:
    """One call, in a vault of so many chunks, with the indexing that follows it."""
    answered, indexed = operation.answer, operation.indexing
    searched = assume.search_ms(chunks) if answered.searches else 0.0
    # Every chunk is written twice: with its words, and with its vector.
    written = indexed.embedded_texts * 1_000 / assume.CHUNKS_A_SECOND.value
    usd = on.prices.usd
    own = _part(on, answered, on.functions[operation.function], searched)
    following = _part(on, indexed, on.functions[INDEXER], written)
    logs = assume.ACCESS_LOG_BYTES.value * _log_usd(on)
    edge = {
        "API requests": math.ceil(max(1, answered.answer_bytes) / (512 * 1024)) * usd("http_api") / MILLION,
        "answers sent": answered.answer_bytes * usd("transfer_out") / GB,
        "logs": logs,
    }
    return added((edge, own, following))


def _part(on: Deployment, part: Part, function: Function, search_ms: float) -> Lines:
    usd = on.prices.usd
    if not part.calls:
        return {}
    gb_seconds = part.calls * function.memory / 1024 * billed_ms(part, function.memory, search_ms) / 1000
    return {
        "function calls": part.calls * usd("lambda_requests") / MILLION,
        "function time": gb_seconds * usd("lambda_gb_second"),
        "table reads": part.read_units * usd("dynamodb_read") / MILLION,
        "table writes": part.write_units * usd("dynamodb_write") / MILLION,
        "embeddings": part.embedded_tokens * usd("embedding_tokens") / MILLION,
        "logs": (part.log_bytes + part.calls * assume.LOG_EXTRA_BYTES.value) * _log_usd(on),
    }


def _log_usd(on: Deployment) -> float:
    """A byte of log, taken in and kept."""
    return (on.prices.usd("logs_ingest") + on.prices.usd("logs_storage") * on.log_days / 30) / GB


def variable(on: Deployment, usage: Usage) -> Lines:
    """What a month's calls cost."""
    chunks = usage.vault_memories * on.chunks_a_memory
    of = on.measured.operations
    ingest = of[f"ingest_{usage.ingest}"]
    parts = (
        (of["search"], usage.retrievals),
        (ingest, usage.messages / usage.ingest),
        (of["checkout_100"], usage.consolidations),
        (of["commit_100_to_10"], usage.consolidations),
    )
    return added(times(call(on, operation, chunks), number) for operation, number in parts)


def kept(on: Deployment, usage: Usage) -> Lines:
    """What holding the memories costs, the domain left out."""
    held = usage.memories * on.stored_bytes / GB
    return {
        "table storage": held * on.prices.usd("dynamodb_storage"),
        "table backup": held * on.prices.usd("dynamodb_pitr"),
    }


def fixed(on: Deployment) -> Lines:
    """What an environment costs that nobody uses."""
    usd = on.prices.usd
    sweeps = assume.SWEEPS.value
    indexer = on.functions[INDEXER]
    seconds = sweeps * assume.SWEEP_MS.value / 1000 * indexer.memory / 1024
    asked = len(on.functions) * HOURS * 3600 / assume.KEY_KEPT_S.value
    return {
        "search domain": on.domain.usd(on.prices),
        "key": usd("kms_key") + asked * usd("kms_requests") / MILLION,
        "metrics": assume.METRICS.value * usd("metric"),
        "alarms": assume.ALARM_METRICS.value * usd("alarm"),
        "dashboard": assume.DASHBOARDS.value * usd("dashboard"),
        "sweeps": sweeps * usd("lambda_requests") / MILLION + seconds * usd("lambda_gb_second"),
    }


def month(on: Deployment, usage: Usage) -> Lines:
    """Everything. The domain grows by nodes of its type where the usage needs more than it is deployed with."""
    chunks = usage.memories * on.chunks_a_memory
    domain = grown(on.domain, chunks, usage.retrievals, usage.vault_memories * on.chunks_a_memory)
    return added((fixed(replace(on, domain=domain)), kept(on, usage), variable(on, usage)))


def total(lines: Mapping[str, float]) -> float:
    return sum(lines.values())
