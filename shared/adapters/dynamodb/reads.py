"""Rows in the order of time, of a session, of a batch; and what the vault holds in all.

An index answers with ids, a page at a time; the rows are then read by id. One that is gone in between is made up for
by the next, so that fewer rows than asked for always mean that there are no more.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from shared.adapters.dynamodb.consolidation import ConsolidationVerbs
from shared.adapters.dynamodb.counters import check_readable, rows_of, to_debt
from shared.adapters.dynamodb.layout import (
    TURN,
    WHEN,
    counters_key,
    header_key,
    id_of,
    partition,
    session_mark,
    to_batch,
    to_memory,
    turn_key,
    when_key,
)
from shared.adapters.dynamodb.leases import PART_MARK
from shared.adapters.dynamodb.values import Item
from shared.domain.batch import State
from shared.domain.memory import RAW, TIERS, Memory, VaultRef
from shared.domain.times import MAX_MS, MIN_MS
from shared.ports.store import SortKey, SourcePage, TimelineQuery, Totals

FILTERED_PAGE = 500
SESSIONS_PAGE = 300
ROW_BYTES = 300
"""Of a row besides its text, about."""
RECENT_MS = 3_600_000
"""How far ahead of the asked moment `recent` looks: rows of an import may have ids that are no times at all."""


class ReadVerbs(ConsolidationVerbs):
    """The reading half of the store, and `shared.ports.search.RowSource`."""

    def totals(self, vault: VaultRef) -> Totals:
        counters = self._table.get(counters_key(vault))
        check_readable(counters)
        rows = rows_of(counters)
        dates = [
            date
            for tier in TIERS
            if rows[tier]
            for forward in (True, False)
            for date in self._first_date(vault, tier, forward=forward)
        ]
        return Totals(
            memories=rows,
            tokens=0 if counters is None else counters.get("tokens", 0),
            oldest_ms=min(dates, default=None),
            newest_ms=max(dates, default=None),
            sessions=self._sessions(vault) if rows[RAW] else 0,
            pending=0 if counters is None else counters.get("pending", 0),
            debt=to_debt(counters),
        )

    def _first_date(self, vault: VaultRef, tier: int, *, forward: bool) -> Iterator[int]:
        """The date of the oldest, or newest, row of a tier, if there is one."""
        walk = self._table.query(
            partition(vault), WHEN, low=f"{tier}#", high=f"{tier}$", forward=forward, limit=1, attributes=(WHEN,)
        )
        for item in islice(walk, 1):
            yield int(item[WHEN].split("#")[1]) + MIN_MS

    def _sessions(self, vault: VaultRef) -> int:
        """How many sessions have rows: a page of the index, then on behind the last session that it shows."""
        count, low, last = 0, "", ""
        while True:
            walk = self._table.query(partition(vault), TURN, low=low, limit=SESSIONS_PAGE, attributes=(TURN,))
            page = [item[TURN].partition("#")[0] for item in islice(walk, SESSIONS_PAGE)]
            for mark in page:
                count += mark != last
                last = mark
            if len(page) < SESSIONS_PAGE:
                return count
            low = f"{last}$"

    def session_ids(self, vault: VaultRef, session_id: str, limit: int) -> tuple[str, ...]:
        check_readable(self._table.get(counters_key(vault)))
        return tuple(islice(self._turns(vault, session_id, limit=limit), limit))

    def _turns(
        self, vault: VaultRef, session_id: str, *, limit: int, at: SortKey | None = None, forward: bool = True
    ) -> Iterator[str]:
        """Ids of a session's rows from `at` on, itself left out."""
        mark = session_mark(session_id)
        low, high = f"{mark}#", f"{mark}$"
        edge = None if at is None else turn_key(session_id, *at)
        if edge is not None:
            low, high = (edge, high) if forward else (low, edge)
        # One more than wanted: the row at the edge may be among them.
        walk = self._table.query(
            partition(vault), TURN, low=low, high=high, forward=forward, limit=limit + 1, attributes=(TURN,)
        )
        return (id_of(item[TURN]) for item in walk if item[TURN] != edge)

    def timeline(self, vault: VaultRef, query: TimelineQuery) -> tuple[Memory, ...]:
        tiers = query.tiers if query.min_importance is None else query.tiers - {RAW}
        walks = [self._times(vault, tier, query) for tier in sorted(tiers)]
        merged = heapq.merge(*walks, reverse=query.newest_first)
        return self._rows(vault, map(id_of, merged), query.limit)

    def _times(self, vault: VaultRef, tier: int, query: TimelineQuery) -> Iterator[str]:
        """``<date>#<id>`` of the rows of one tier in the asked window and order, after the asked row."""
        low, high = when_key(tier, _within(query.from_ms)), when_key(tier, _within(query.to_ms))
        edge = None
        if query.after is not None:
            edge = when_key(tier, _within(query.after[0]), query.after[1])
            low, high = (low, min(high, edge)) if query.newest_first else (max(low, edge), high)
        if low > high:
            return
        least = query.min_importance
        walk = self._table.query(
            partition(vault),
            WHEN,
            low=low,
            high=high,
            forward=not query.newest_first,
            limit=query.limit + 1 if least is None else FILTERED_PAGE,
            attributes=(WHEN,),
            **_at_least(least),
        )
        for item in walk:
            # No row lies at the upper end of the window: its key there has no id.
            if item[WHEN] != edge:
                yield item[WHEN].partition("#")[2]

    def spanning(self, vault: VaultRef, query: TimelineQuery) -> tuple[Memory, ...]:
        ids = sorted(
            (name for tier in query.tiers - {RAW} for name in self._overlapping(vault, tier, query)),
            reverse=query.newest_first,
        )
        return self._rows(vault, iter(ids), query.limit)

    def _overlapping(self, vault: VaultRef, tier: int, query: TimelineQuery) -> Iterator[str]:
        """Ids of reflections whose coverage begins before the window's end and ends at or after it."""
        before = _within(query.to_ms)
        rated = _at_least(query.min_importance)
        walk = self._table.query(
            partition(vault),
            WHEN,
            low=when_key(tier, before),
            high=f"{tier}$",
            attributes=(WHEN,),
            **rated | {"only": " AND ".join(filter(None, ("#cf < :before", rated.get("only")))), "before": before},
        )
        after = None if query.after is None else query.after[1]
        for item in walk:
            name = id_of(item[WHEN])
            if after is None or (name < after if query.newest_first else name > after):
                yield name

    def export(self, vault: VaultRef, after: SortKey | None, limit: int) -> tuple[Memory, ...]:
        everything = frozenset(TIERS)
        return self.timeline(vault, TimelineQuery(MIN_MS, MAX_MS + 1, everything, False, limit, after=after))

    def _rows(self, vault: VaultRef, ids: Iterator[str], limit: int) -> tuple[Memory, ...]:
        """The first `limit` of the rows that are there. Raises `StaleEpoch`."""
        found: list[Memory] = []
        chunk = list(islice(ids, limit))
        while True:
            rows = self.get(vault, chunk)
            found += [rows[name] for name in chunk if name in rows]
            chunk = list(islice(ids, limit - len(found)))
            if not chunk:
                return tuple(found)

    def _settled(self, vault: VaultRef, batch_ids: Sequence[str]) -> dict[str, Item]:
        """Headers by batch, after what somebody began on them is finished. Raises `StaleEpoch`."""
        keys = [header_key(vault, name) for name in batch_ids if PART_MARK not in name]
        items = self._table.get_all([counters_key(vault), *keys])
        check_readable(items.pop("D", None))
        headers = {id_of(sort): item for sort, item in items.items()}
        for name, header in headers.items():
            if header["state"] == State.COMMITTED.value or "undoing" in header:
                self.heal(vault, name)
        return headers

    def sources(self, vault: VaultRef, batch_id: str, offset: int, limit: int) -> SourcePage:
        header = self._settled(vault, [batch_id]).get(batch_id)
        if header is None or header["state"] not in (State.COMMITTED.value, State.SETTLED.value):
            return SourcePage((), None)
        listed = self._listed(vault, batch_id)
        found: list[Memory] = []
        place, step = offset, limit + 1
        while place < len(listed) and len(found) <= limit:
            rows = self.get(vault, listed[place : place + step])
            live = (rows[name] for name in listed[place : place + step] if name in rows)
            found += [row for row in live if row.consolidated_by == batch_id]
            place += step
            # Many of them are gone: look at more at a time, rather than ask often.
            step = min(2 * step, FILTERED_PAGE)
        following = found[limit].position if len(found) > limit else None
        return SourcePage(tuple(found[:limit]), following)

    def written_by(self, vault: VaultRef, batch_ids: Sequence[str]) -> dict[str, tuple[Memory, ...]]:
        headers = self._settled(vault, batch_ids)
        created = {name: [each.id for each in to_batch(header).created] for name, header in headers.items()}
        rows = self.get(vault, [memory_id for ids in created.values() for memory_id in ids])
        written = {
            name: tuple(rows[each] for each in ids if each in rows and rows[each].origin == name)
            for name, ids in created.items()
        }
        return {name: memories for name, memories in written.items() if memories}

    def beside(self, vault: VaultRef, session_id: str, at: SortKey, reach: int) -> tuple[Memory, ...]:
        """Up to `reach` raw rows of the session on either side of `at`, oldest first, without the one there."""
        before, after = (
            self._rows(vault, self._turns(vault, session_id, limit=reach, at=at, forward=forward), reach)
            for forward in (False, True)
        )
        return (*reversed(before), *after)

    def recent(self, vault: VaultRef, since_ms: int, max_bytes: int) -> tuple[Memory, ...]:
        """Rows of all tiers written since, oldest first; the newest of them when `max_bytes` do not suffice."""
        walk = self._table.query(
            partition(vault),
            low=f"M#{_first_id(since_ms)}",
            high=f"M#{_first_id(since_ms + RECENT_MS)}",
            forward=False,
        )
        found: list[Memory] = []
        size = 0
        for row in map(to_memory, walk):
            size += len(row.text.encode("utf-8")) + ROW_BYTES
            if size > max_bytes:
                break
            found.append(row)
        return tuple(reversed(found))


def _within(ms: int) -> int:
    """The instant, moved into the range that a key can hold."""
    return min(max(ms, MIN_MS), MAX_MS + 1)


def _at_least(importance: int | None) -> dict[str, Any]:
    """A query's filter, if there is to be any."""
    return {} if importance is None else {"only": "#i >= :least", "least": importance}


def _first_id(ms: int) -> str:
    """What all UUIDs of version 7 made at that moment or later do not sort before."""
    digits = f"{max(ms, 0):012x}"
    return f"{digits[:8]}-{digits[8:]}-7"
