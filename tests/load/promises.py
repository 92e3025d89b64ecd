"""After a run: whether the vaults hold what their clients were told, read through the API alone.

Every raw memory is unconsolidated, in one open lease, or a source of exactly one committed batch; counters equal a
recount; nothing acknowledged is missing, nothing deleted is there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.load.client import Client
from tests.load.known import COMMITTED, LEASED, UNSURE, Held, Known

CHECK = "check"
INSPECTED = 40
"""Reflections of a vault whose lineage is followed; the newest."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rows` were read back, `batches` held against them; `broken` says in words what is wrong."""

    rows: int
    batches: int
    broken: tuple[str, ...]


def check(client: Client, vaults: Sequence[Known]) -> Verdict:
    """Reads every vault through. Gives the open leases back and consolidates nothing."""
    rows = batches = 0
    broken: list[str] = []
    for number, vault in enumerate(vaults):
        checked = _Vault(client, vault)
        checked.run()
        rows += len(checked.rows)
        batches += len(vault.batches)
        broken += [f"vault {number}: {what}" for what in (*vault.broken, *checked.broken)]
    return Verdict(rows, batches, tuple(broken))


def est_tokens(text: str) -> int:
    """As the API documents it: a token is four bytes of UTF-8, rounded up."""
    return -(-len(text.encode()) // 4)


class _Vault:
    def __init__(self, client: Client, known: Known) -> None:
        self._client, self._known = client, known
        self.rows: dict[str, Row] = {}
        self.broken: list[str] = []

    def run(self) -> None:
        self._export()
        self._stored()
        self._batches()
        self._counters()
        self._lineage()
        self._leases()

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.broken.append(what)

    def _call(self, method: str, path: str, body: object = None) -> Any:
        answer = self._client.call(CHECK, method, f"/v1/memory/{path}", self._known.key, body)
        self._expect(answer.status == 200, f"{path.partition('?')[0]} was answered with {answer.status}")
        return answer.json if answer.status == 200 else {}

    def _export(self) -> None:
        cursor = ""
        while True:
            answer = self._client.call(CHECK, "GET", f"/v1/memory/export?limit=1000{cursor}", self._known.key)
            if answer.status != 200:
                self._expect(False, f"export was answered with {answer.status}")
                return
            for line in answer.body.splitlines():
                row = json.loads(line)
                self._expect(row["id"] not in self.rows, f"{row['id']} is exported twice")
                self.rows[row["id"]] = row
            following = answer.header("x-next-cursor")
            if not following:
                return
            cursor = f"&cursor={following}"

    def _raw(self) -> dict[str, Row]:
        return {name: row for name, row in self.rows.items() if row["tier"] == 1}

    def _stored(self) -> None:
        known = self._known
        for memory_id, word in known.rows.items():
            row = self.rows.get(memory_id)
            if memory_id in known.deleted:
                self._expect(row is None, f"{memory_id} was deleted and is there")
            elif memory_id not in known.perhaps_deleted:
                self._expect(row is not None and row["content"].split()[0] == word, f"{memory_id} was lost")
        told = Counter(row["content"].split()[0] for row in self._raw().values())
        twice = [word for word, times in told.items() if times > 1]
        self._expect(not twice, f"{len(twice)} messages are stored twice, such as {twice[:1]}")
        missing = known.lines - told.keys()
        self._expect(not missing, f"{len(missing)} uploaded lines were lost")
        foreign = told.keys() - known.lines - known.unsure - set(known.rows.values())
        self._expect(not foreign, f"{len(foreign)} rows were never sent to this vault")

    def _batches(self) -> None:
        """Committed batches share no source, have theirs marked, and nothing else is marked."""
        holders: dict[str, str] = {}
        for name, batch in self._known.batches.items():
            if batch.state != COMMITTED:
                continue
            for memory_id in batch.sources:
                self._expect(memory_id not in holders, f"{memory_id} is a source of two committed batches")
                holders[memory_id] = name
            for created in batch.created:
                self._expect(created in self.rows, f"the reflection {created} of {name} is missing")
        unsure = {name for name, batch in self._known.batches.items() if batch.state == UNSURE}
        for memory_id, row in self.rows.items():
            marked = row.get("consolidation", {}).get("batch", {}).get("id")
            if marked in unsure:
                continue
            self._expect(
                marked == holders.get(memory_id), f"{memory_id} is marked {marked}, not {holders.get(memory_id)}"
            )
            if row["tier"] > 1:
                writer = self._known.batches.get(row["batch_id"])
                written = writer is not None and (writer.state == UNSURE or memory_id in writer.created)
                self._expect(written, f"nobody committed the reflection {memory_id}")

    def _counters(self) -> None:
        stats = self._call("GET", "stats")
        if not stats:
            return
        tiers = Counter(row["tier"] for row in self.rows.values())
        self._expect(stats["pending"] == 0, "writes are on their way still")
        self._expect(stats["tiers"] == {str(tier): tiers[tier] for tier in (1, 2, 3)}, "the counts are not a recount")
        tokens = sum(est_tokens(row["content"]) for row in self.rows.values())
        self._expect(stats["total_tokens"] == tokens, f"{stats['total_tokens']} tokens are counted, {tokens} are there")
        free = [row for row in self.rows.values() if "consolidation" not in row]
        raw = [row for row in free if row["tier"] == 1]
        second = [row for row in free if row["tier"] == 2]
        debt = stats["reflection"]["unconsolidated"]
        told = (debt["raw"]["units"], debt["raw"]["est_tokens"], debt["tier2"]["count"], debt["tier2"]["importance"])
        recount = (
            len(raw),
            sum(est_tokens(row["content"]) for row in raw),
            len(second),
            sum(row["importance"] for row in second),
        )
        self._expect(told == recount, f"the debt is told as {told}, a recount gives {recount}")

    def _lineage(self) -> None:
        committed = [(name, batch) for name, batch in self._known.batches.items() if batch.state == COMMITTED]
        for name, batch in committed[-INSPECTED:]:
            told = self._call("POST", "inspect", {"memory_id": batch.created[0]}) if batch.created else {}
            if told:
                self._same_sources(name, batch, told)

    def _same_sources(self, name: str, batch: Held, told: Row) -> None:
        there = [memory_id for memory_id in batch.sources if memory_id in self.rows]
        gone = len(batch.sources) - len(there)
        self._expect(told["sources_total"] == len(batch.sources), f"inspect has lost count of {name}")
        self._expect(told["sources_deleted"] == gone, f"inspect miscounts what was deleted of {name}")
        shown = [source["id"] for source in told["sources"]]
        self._expect(shown == there[: len(shown)], f"inspect shows other sources of {name}")

    def _leases(self) -> None:
        """Open leases are apart from each other; given back, the pool hands every free row out exactly once."""
        for tier in (1, 2):
            held: list[str] = []
            for name, batch in self._known.batches.items():
                if batch.tier == tier and batch.state == LEASED:
                    held += batch.sources
                    self._call("POST", "consolidate/release", {"batch_id": name})
            self._expect(len(held) == len(set(held)), f"two open leases of tier {tier} overlap")
            free = {
                memory_id for memory_id, row in self.rows.items() if row["tier"] == tier and "consolidation" not in row
            }
            self._expect(set(held) & self.rows.keys() <= free, f"a leased row of tier {tier} is consolidated")
            self._handed_out(tier, free)

    def _handed_out(self, tier: int, free: set[str]) -> None:
        handed: list[str] = []
        names: list[str] = []
        leased = 0
        while True:
            found = self._call("POST", "consolidate/checkout", {"tier": tier, "max_tokens": 200_000})
            if not found or found["batch_id"] is None:
                leased = found.get("leased", 0) - len(handed) if found else 0
                break
            handed += found["source_ids"]
            names.append(found["batch_id"])
        for name in names:
            self._call("POST", "consolidate/release", {"batch_id": name})
        self._expect(len(handed) == len(set(handed)), f"a row of tier {tier} was handed out twice")
        lost = self._known.lost_leases + sum(batch.state == UNSURE for batch in self._known.batches.values())
        if lost == 0:
            self._expect(leased == 0, f"{leased} rows of tier {tier} are in leases that nobody was given")
        self._expect(
            set(handed) <= free and len(free) == len(handed) + leased,
            f"of {len(free)} free rows of tier {tier} {len(handed)} were handed out and {leased} are leased",
        )
