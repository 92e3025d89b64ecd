"""The managed search domain: what it costs and how much it stands."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

from infra.costs import assumptions as assume
from infra.costs.assumptions import GB, HOURS, NODES, SECONDS
from infra.costs.prices import Prices, WrongPrices

CDK = Path(__file__).resolve().parents[2] / "cdk.json"
NO_MASTERS = "m7g.medium.search"


@dataclass(frozen=True, slots=True)
class Domain:
    """`nodes` hold `copies` of every document, `volume` GB each."""

    instance: str
    nodes: int
    volume: float
    copies: int
    masters: int = 0
    master_instance: str = NO_MASTERS

    def usd(self, prices: Prices) -> float:
        """Dollars a month."""
        hours = HOURS * self.nodes * prices.usd(self.instance)
        hours += HOURS * self.masters * prices.usd(self.master_instance) if self.masters else 0.0
        return hours + self.nodes * self.volume * prices.usd("search_volume")

    def searches_a_second(self, vault_chunks: float) -> float:
        """How many it answers before they wait for each other."""
        processors, _ = _node(self.instance)
        return self.nodes * processors * assume.BUSY.value * 1000 / assume.search_ms(vault_chunks)

    @property
    def chunks(self) -> float:
        """How many it holds with every vector in memory."""
        _, memory = _node(self.instance)
        in_memory = self.nodes * memory * assume.CACHE.value / assume.CHUNK_VECTOR_BYTES.value
        on_disk = self.nodes * self.volume * GB * assume.DISK_FULL.value / assume.CHUNK_DISK_BYTES.value
        return min(in_memory, on_disk) / self.copies


def configured(environment: str, path: Path = CDK) -> tuple[Domain, int]:
    """The domain of an environment in ``cdk.json``, and the days that its logs are kept."""
    described = json.loads(path.read_text("utf-8"))["context"]["environments"][environment]
    search = described["search"]
    domain = Domain(
        search["instance"],
        search["nodes"],
        search["volume"],
        min(search["nodes"], 3),
        search.get("masters", 0),
        search.get("master_instance", NO_MASTERS),
    )
    return domain, described["log_days"]


def grown(domain: Domain, chunks: float, retrievals: float, vault_chunks: float) -> Domain:
    """The same with as many nodes and as large volumes as so many chunks, and so many searches a month, need."""
    _, memory = _node(domain.instance)
    needed = chunks * assume.CHUNK_VECTOR_BYTES.value * domain.copies / (memory * assume.CACHE.value)
    peak = retrievals / SECONDS * assume.PEAK.value
    busy = domain.nodes * peak / domain.searches_a_second(vault_chunks)
    nodes = max(domain.nodes, math.ceil(needed), math.ceil(busy))
    disk = chunks * assume.CHUNK_DISK_BYTES.value * domain.copies / (nodes * GB * assume.DISK_FULL.value)
    return replace(domain, nodes=nodes, volume=max(domain.volume, math.ceil(disk)))


def _node(instance: str) -> tuple[int, float]:
    if instance not in NODES:
        raise WrongPrices(f"processors and memory of {instance} are not known: add it to infra/costs/assumptions.py")
    return NODES[instance]
