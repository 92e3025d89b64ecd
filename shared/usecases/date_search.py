"""Search by time: everything in a window page by page, or the best of a window for a question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from shared.domain import metering
from shared.domain.errors import InvalidRequest
from shared.domain.memory import TIERS, Memory
from shared.domain.sizes import ROWS_BYTES, fit, wire_bytes
from shared.domain.times import MAX_MS, MIN_MS, to_text
from shared.domain.transfer import canonical_uuid
from shared.domain.window import (
    Candidate,
    Page,
    Window,
    fill,
    parse_bounds,
    returned,
    token_budget,
    with_more_spanning,
    within_half,
)
from shared.ports.store import SortKey, TimelineQuery
from shared.ports.telemetry import RETRIEVALS
from shared.usecases import metered
from shared.usecases.models import chosen_model
from shared.usecases.rows import row_json
from shared.usecases.search import filters_for, ranked
from shared.usecases.services import Answer, Caller, Services

ROWS_AT_ONCE, FEWEST_ROWS = 200, 10
USUAL_TOKENS = 50
"""Of a row, before any was read: how many rows a page may need."""
# How many hits the index is asked for to begin with.
FIRST_HITS = 50


def date_search(
    services: Services,
    caller: Caller,
    *,
    from_: str,
    to: str | None = None,
    query: str | None = None,
    tiers: Sequence[int] | None = None,
    max_tokens: float | None = None,
    order: str = "newest_first",
    importance: int | None = None,
    after_id: str | None = None,
) -> Answer:
    """One page of the window ``[from, to)``. `order` is ``newest_first`` or ``oldest_first``.

    Raises `InvalidRequest` for a bad window, and as search does.
    """
    start, end = parse_bounds(from_, to)
    after = None if after_id is None else canonical_uuid(after_id)
    if after_id is not None and after is None:
        raise InvalidRequest.field("after_id", "must be a UUID", "Send back `returned.after_id` as it came.")
    chosen_model(services, caller)
    window = Window(start, max(start, _open_end(services, caller) if end is None else end))
    budget = token_budget(max_tokens)
    whole_vault = replace(caller, session_id=None)
    if query is not None:
        rows, answer = _best(services, whole_vault, query, window, budget, tiers, importance)
    else:
        reader = _Reader(services, whole_vault, window, frozenset(tiers or TIERS), importance, order == "newest_first")
        rows, answer = reader.page(budget, after)
    metered.record(services, caller, metering.DATE_SEARCH, sum(memory.tokens for memory in rows))
    services.telemetry.record(RETRIEVALS)
    answer["reflection"] = services.store.debt(caller.vault).block()
    return answer


def _open_end(services: Services, caller: Caller) -> int:
    """Just after now and after the newest row, whichever is later."""
    newest = services.store.timeline(
        caller.vault, TimelineQuery(MIN_MS, MAX_MS + 1, frozenset(TIERS), newest_first=True, limit=1)
    )
    return max([services.clock.now_ms(), *(memory.date_ms for memory in newest)]) + 1


def _window_json(window: Window) -> dict[str, object]:
    return {"from": to_text(window.from_ms), "to": to_text(window.to_ms)}


def _best(
    services: Services,
    caller: Caller,
    query: str,
    window: Window,
    budget: int,
    tiers: Sequence[int] | None,
    importance: int | None,
) -> tuple[list[Memory], Answer]:
    """The most relevant rows of the window that fit the budget, the best one in any case."""
    taken: list[Memory] = []
    rows: list[Answer] = []
    tokens = 0
    truncated = False
    if window.from_ms < window.to_ms:
        filters = replace(filters_for(caller, tiers, importance), from_ms=window.from_ms, to_ms=window.to_ms)
        for hit in ranked(services, caller, query, filters, FIRST_HITS):
            tokens += hit.memory.tokens
            if taken and tokens > budget:
                truncated = True
                break
            taken.append(hit.memory)
            rows.append(row_json(hit.memory, hit.score))
    shown, cut = fit(rows)
    answer: Answer = {"memories": shown, "returned": _window_json(window), "truncated": truncated or cut}
    return taken[: len(shown)], answer


def _begins(candidate: Candidate[Memory]) -> int:
    covers = candidate.row.covers
    return candidate.instant if covers is None else covers.from_ms


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a window in its order, the spanning reflections of its last millisecond included."""

    services: Services
    caller: Caller
    window: Window
    tiers: frozenset[int]
    importance: int | None
    newest_first: bool

    def page(self, budget: int, after_id: str | None) -> tuple[list[Memory], Answer]:
        if self.window.from_ms >= self.window.to_ms:
            return [], {"memories": [], "returned": _window_json(self.window), "truncated": False}
        after = None if after_id is None else self._resume_at(after_id)
        spanning, left_out = self._spanning(budget, after)
        shared = min(sum(candidate.tokens for candidate in spanning), budget // 2)
        page = fill(self._ordered(spanning, after, budget - shared), budget, ROWS_BYTES)
        if left_out:
            page = with_more_spanning(page, at_once=self._would_miss(left_out, page))
        covered = _window_json(
            returned(self.window, page, newest_first=self.newest_first, resumed=None if after is None else after[0])
        )
        if page.cut:
            covered["after_id"] = page.rows[-1].id
        answer: Answer = {
            "memories": [row_json(candidate.row) for candidate in page.rows],
            "returned": covered,
            "truncated": page.truncated,
        }
        return [candidate.row for candidate in page.rows], answer

    def _query(self, after: SortKey | None, limit: int = ROWS_AT_ONCE) -> TimelineQuery:
        return TimelineQuery(
            self.window.from_ms,
            self.window.to_ms,
            self.tiers,
            newest_first=self.newest_first,
            limit=limit,
            min_importance=self.importance,
            after=after,
        )

    def _candidate(self, memory: Memory) -> Candidate[Memory]:
        spanning = memory.date_ms > self.window.last_ms
        instant = min(memory.date_ms, self.window.last_ms)
        return Candidate(instant, memory.id, memory.tokens, wire_bytes(row_json(memory)) + 1, spanning, memory)

    def _resume_at(self, after_id: str) -> SortKey:
        """Where the row `after_id` stands. When it is gone: in the window's first instant, the one that was cut."""
        row = self.services.store.get(self.caller.vault, [after_id]).get(after_id)
        if row is not None:
            start = row.covers.from_ms if row.covers is not None else row.date_ms
            if row.date_ms >= self.window.from_ms and start < self.window.to_ms:
                return min(row.date_ms, self.window.last_ms), after_id
        first = self.services.store.timeline(self.caller.vault, self._query(None, limit=1))
        return (first[0].date_ms if first else self.window.last_ms), after_id

    def _spanning(self, budget: int, after: SortKey | None) -> tuple[list[Candidate[Memory]], list[Candidate[Memory]]]:
        """The spanning reflections of this page in their order, and the first of those that were left out."""
        at: SortKey | None = None
        if after is not None:
            if after[0] == self.window.last_ms:
                at = after
            elif self.newest_first:
                # They stand before the instant at hand and were on its first page.
                return [], []
        found: list[Candidate[Memory]] = []
        for rows in self._spanning_after(at):
            found += rows
            fitting = within_half(found, budget)
            if fitting < len(found):
                return found[:fitting], found[fitting:]
        return found, []

    def _spanning_after(self, at: SortKey | None) -> Iterator[list[Candidate[Memory]]]:
        while True:
            rows = self.services.store.spanning(self.caller.vault, self._query(at))
            yield list(map(self._candidate, rows))
            if len(rows) < ROWS_AT_ONCE:
                return
            at = (self.window.last_ms, rows[-1].id)

    def _would_miss(self, left_out: list[Candidate[Memory]], page: Page[Memory]) -> bool:
        """Whether a reflection that was left out begins where the page ends or later: no page after it would meet it.

        Oldest first the spanning ones come last, so that no page passes them.
        """
        if not self.newest_first or not page.truncated:
            return False
        edge = page.rows[-1].instant
        rest = self._spanning_after((self.window.last_ms, left_out[-1].id))
        return any(_begins(each) >= edge for each in chain(left_out, chain.from_iterable(rest)))

    def _ordered(
        self, spanning: Sequence[Candidate[Memory]], after: SortKey | None, budget: int
    ) -> Iterator[Candidate[Memory]]:
        """Own rows and spanning reflections merged by (instant, id)."""
        waiting = list(reversed(spanning))
        for candidate in self._own(after, budget):
            while waiting and self._before(waiting[-1], candidate):
                yield waiting.pop()
            yield candidate
        yield from reversed(waiting)

    def _before(self, one: Candidate[Memory], other: Candidate[Memory]) -> bool:
        left, right = (one.instant, one.id), (other.instant, other.id)
        return left > right if self.newest_first else left < right

    def _own(self, after: SortKey | None, budget: int) -> Iterator[Candidate[Memory]]:
        """Rows that are not spanning, read as many at a time as the tokens that are left may take."""
        size = min(max(budget // USUAL_TOKENS, FEWEST_ROWS), ROWS_AT_ONCE)
        count, tokens, beyond = 0, 0, FEWEST_ROWS
        while True:
            rows = self.services.store.timeline(self.caller.vault, self._query(after, size))
            yield from map(self._candidate, rows)
            if len(rows) < size:
                return
            after = (rows[-1].date_ms, rows[-1].id)
            count, tokens = count + len(rows), tokens + sum(row.tokens for row in rows)
            if tokens < budget:
                size = max((budget - tokens) * count // max(tokens, 1) + 1, FEWEST_ROWS)
            else:
                # The page is full, unless all this is one instant: that is read on, ever faster.
                size, beyond = beyond, 2 * beyond
            size = min(size, ROWS_AT_ONCE)
