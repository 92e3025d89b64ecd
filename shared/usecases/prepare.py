"""Context for a model's next answer: what the vault knows about the last messages, as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from shared.domain import metering
from shared.domain.text import est_tokens, is_blank
from shared.ports.search import Filters
from shared.ports.telemetry import RETRIEVALS
from shared.usecases import metered
from shared.usecases.models import chosen_model
from shared.usecases.search import WIDER, Found, debt_with, filters_for, ranked
from shared.usecases.services import Answer, Caller, Services

if TYPE_CHECKING:
    from shared.retrieval.repeats import Scored

DENSITY: Final = {"low": 10, "default": 30, "high": 60, "xhigh": 120}
FEWEST_TOKENS: Final = 2_000
"""The budget that a context of few rows has all the same."""
QUERY_TOKENS = 200


def prepare(
    services: Services,
    caller: Caller,
    messages: Sequence[tuple[str, str]],
    density: str,
    context_limit: int | None,
    context_tokens: int | None,
    tiers: Sequence[int] | None,
    importance: int | None,
) -> Answer:
    """`messages` are (role, text), oldest first. Only rows that match are shown, and none that others repeat.

    `context_limit` is in rows, `context_tokens` in estimated tokens of the whole context. Raises as search does.
    """
    # Not before a request comes: a cold function has less to load until then.
    from shared.retrieval.packing import ROW_TOKENS, pack

    limit = DENSITY[density] if context_limit is None else context_limit
    query = query_from(messages)
    hits: list[Found] = []
    rows: list[Scored] = []
    if limit and not is_blank(query):
        hits, rows = _different(services, caller, query, filters_for(caller, tiers, importance), limit)
    else:
        chosen_model(services, caller)
    packed = pack(rows, query, context_tokens or max(FEWEST_TOKENS, ROW_TOKENS * limit))
    metered.record(services, caller, metering.PREPARE, sum(est_tokens(shown.text) for shown in packed.shown))
    services.telemetry.record(RETRIEVALS)
    answer: Answer = {
        "context": packed.text,
        "memories_found": len(packed.shown),
        "tokens": est_tokens(packed.text),
        "reflection": debt_with(services, caller, hits).block(),
    }
    if packed.truncated:
        answer["truncated"] = True
    return answer


def _different(
    services: Services, caller: Caller, query: str, filters: Filters, limit: int
) -> tuple[list[Found], list[Scored]]:
    """All hits that were read, and at most `limit` rows that match and repeat no other.

    Where repeats take half of them or more, the index is asked once more, and its further rows are read at once.
    """
    from shared.retrieval.repeats import Scored, without_repeats

    found = ranked(services, caller, query, filters, limit)
    hits = list(islice(found, limit))
    rows = without_repeats(Scored(hit.memory, hit.score) for hit in hits if hit.matched)
    if 2 * len(rows) <= limit == sum(hit.matched for hit in hits):
        hits += islice(found, limit * (WIDER - 1))
        rows = without_repeats(Scored(hit.memory, hit.score) for hit in hits if hit.matched)
    return hits, rows[:limit]


def query_from(messages: Sequence[tuple[str, str]]) -> str:
    """The last message with text, and those before it while all stay within about 200 tokens; oldest first.

    System messages are left out: they describe the assistant, not what is being talked about.
    """
    texts: list[str] = []
    tokens = 0
    for role, text in reversed(messages):
        if role in ("system", "developer") or is_blank(text):
            continue
        tokens += est_tokens(text)
        if texts and tokens > QUERY_TOKENS:
            break
        texts.append(text)
    return "\n".join(reversed(texts))
