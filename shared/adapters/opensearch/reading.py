"""One search: count, choose what may be among the best, rank it exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from shared.adapters.opensearch import query as ask
from shared.adapters.opensearch.chains import pieces
from shared.adapters.opensearch.documents import hashed, stored_vector
from shared.adapters.opensearch.mapping import FIELDS, MAX_RESULTS
from shared.adapters.opensearch.query import Question
from shared.adapters.opensearch.signals import Counted, Seen, candidates, passes, seen, tail, unique, with_tail
from shared.adapters.opensearch.transport import Json, Transport
from shared.domain.memory import TIERS, Memory, VaultRef
from shared.ports.search import Filters, Hit, Query, RowSource
from shared.retrieval.function_words import asks_only_when, content_words
from shared.retrieval.ranking import PRIOR_DEPTH, SESSION_BEST, Candidates, Ranked, rank
from shared.retrieval.speakers import speaker_name
from shared.retrieval.spelling import candidates as respelled
from shared.retrieval.spelling import corrected, doubted
from shared.retrieval.tokens import asked_stems
from shared.retrieval.words import rarity

ALL_OF_THEM = 1_200
"""Passages up to which every one is looked at closely."""
EXACT = 50_000
"""Passages up to which every one is weighed before the best are looked at closely."""
CLOSELY = 800
"""Passages that are looked at closely, of those that promise most: well over the depth that the priors need."""
OF_A_TIER = 100
A_FEW = 10
"""Matching passages of a tier that are enough to know its best row."""
WIDER = 4
MOST_TERMS = 200
"""Words of a query that count; of more the rarest that the vault holds."""
TAIL_MS, TAIL_BYTES = 60_000, 1_000_000
ALL_TIERS = frozenset(TIERS)


@dataclass(frozen=True, slots=True)
class Scene:
    """What one search knows before it looks at passages."""

    asked: Question
    counted: Counted
    visible: int
    by_tier: dict[int, int]
    tail: list[Seen]


@dataclass(frozen=True, slots=True)
class Count:
    """What counting found. `missing` are recent rows that the index does not hold yet, `unindexed` their passages."""

    aggregations: Json
    vault: Counted
    missing: list[Memory]
    unindexed: list[Seen]


class Reader:
    """Searches one index. `now_ms` is the clock that rows were written by."""

    def __init__(self, transport: Transport, rows: RowSource, index: str) -> None:
        self._transport, self._rows, self._index = transport, rows, index

    def search(self, vault: VaultRef, query: Query, filters: Filters, limit: int, now_ms: int) -> tuple[Hit, ...]:
        if filters.from_ms is not None and filters.to_ms is not None and filters.from_ms >= filters.to_ms:
            # Coverage around an empty window overlaps nothing.
            return ()
        stems = frozenset(asked_stems(query.text))
        asked = Question(
            vault=vault,
            filters=filters,
            stems=tuple(sorted(stems)[:1_000]),
            terms=tuple(sorted(content_words(stems))),
            vector=None if query.vector is None else stored_vector(query.vector) or None,
            noise=query.noise,
            nearness=query.nearness,
            periods=query.periods,
            text=query.text,
            only_when=bool(query.periods) and asks_only_when(stems),
        )
        scene = self._scene(asked, now_ms)
        if scene.visible + len(scene.tail) == 0 or limit < 1:
            return ()
        found = self._ordered(scene, limit)[:limit]
        return tuple(Hit(row.memory_id, row.tier, row.score, row.matched) for row in found)

    def _scene(self, asked: Question, now_ms: int) -> Scene:
        vault = asked.vault
        recent = {memory.id: memory for memory in self._rows.recent(vault, now_ms - TAIL_MS, TAIL_BYTES)}
        if len(asked.terms) > MOST_TERMS:
            asked = replace(asked, terms=self._rarest(vault, asked.terms))
        count = self._count(asked, recent)
        terms = self._meant(asked, count)
        if terms != asked.terms:
            asked = replace(asked, terms=terms)
            count = self._count(asked, recent)
        weights = tuple(
            tuple(float(rarity(max(1, count.vault.population), frequency)) for frequency in each)
            for each in count.vault.frequencies
        )
        aggs = count.aggregations
        roles = {bucket["key"] for bucket in aggs["named"]["roles"]["buckets"]} | _named(count.missing, asked.stems)
        shown = {memory.id for memory in count.missing if passes(memory, asked.filters)}
        return Scene(
            asked=replace(asked, weights=weights, speaker=roles.pop() if len(roles) == 1 else ""),
            counted=count.vault,
            visible=int(aggs["visible"]["doc_count"]),
            by_tier={bucket["key"]: bucket["doc_count"] for bucket in aggs["visible"]["tiers"]["buckets"]},
            tail=[passage for passage in count.unindexed if passage.facts.memory_id in shown],
        )

    def _count(self, asked: Question, recent: Mapping[str, Memory]) -> Count:
        answer = self._ask(asked.vault, ask.counting(asked, list(recent)))
        aggs = answer["aggregations"]
        words = aggs["words"]["buckets"] if asked.terms else {}
        frequencies = (
            tuple(int(words[f"{field} {place}"]["doc_count"]) for place in range(len(asked.terms)))
            for field in range(len(FIELDS))
        )
        counted = Counted(int(answer["hits"]["total"]["value"]), tuple(frequencies))
        held = {bucket["key"] for bucket in aggs["held"]["rows"]["buckets"]} if recent else set()
        missing = [memory for memory_id, memory in recent.items() if memory_id not in held]
        unindexed = tail(self._rows, missing, asked) if missing else []
        return Count(aggs, with_tail(counted, unindexed), missing, unindexed)

    def _meant(self, asked: Question, count: Count) -> tuple[str, ...]:
        """The question's terms, and for those that the vault does not hold what they may have meant."""
        own = count.vault.frequencies[0]
        absent = (term for term, frequency in zip(asked.terms, own, strict=True) if not frequency)
        made = respelled(doubted(absent), asked.text)
        if not made:
            return asked.terms
        answer = self._ask(asked.vault, ask.saying(asked.vault, sorted(frozenset().union(*made.values()))))
        said = {bucket["key"] for bucket in answer["aggregations"]["said"]["buckets"]}
        said |= {word for memory in count.missing for piece in pieces(memory) for word in piece.said}
        return corrected(asked.terms, {term: others & said for term, others in made.items()})

    def _rarest(self, vault: VaultRef, terms: Sequence[str]) -> tuple[str, ...]:
        words = self._ask(vault, ask.holding(vault, terms))["aggregations"]["words"]["buckets"]
        held = [int(words[str(place)]["doc_count"]) for place in range(len(terms))]
        weighed = [(not frequency, frequency, term) for frequency, term in zip(held, terms, strict=True)]
        return tuple(sorted(term for _, _, term in sorted(weighed)[:MOST_TERMS]))

    def _ordered(self, scene: Scene, limit: int) -> list[Ranked]:
        """At least `limit` rows if there are so many; a longer list begins with every shorter one."""
        head, all_matches = self._head(scene)
        weighed, blended = self._weighed(scene, head), scene.asked.filters.tiers >= ALL_TIERS
        found = rank(weighed, limit, blended)
        if len(found) == limit and (all_matches or found[-1].matched):
            return found
        found = rank(weighed, len(head), blended)
        size, looked_at = CLOSELY, len(head)
        while True:
            if not all_matches:
                # What does not match must wait for what may still come and does.
                found = [row for row in found if row.matched]
            if len(found) >= limit or looked_at >= scene.visible + len(scene.tail) or size >= MAX_RESULTS:
                return found
            size = min(size * WIDER, MAX_RESULTS)
            wide = self._look(scene, [ask.all_in_order(scene.asked, size)])
            looked_at = max(len(wide), size)
            all_matches = looked_at >= scene.visible or len(_matching(scene.asked, wide)) < len(wide)
            here, floor = {row.memory_id for row in found}, min((row.score for row in found), default=1.0)
            further = rank(self._weighed(scene, wide), len(wide), tiers_default=False)
            found += [replace(row, score=min(row.score, floor)) for row in further if row.memory_id not in here]

    def _head(self, scene: Scene) -> tuple[list[Seen], bool]:
        """The passages that are looked at closely, the same ones for every limit, and whether all matches are there."""
        asked = scene.asked
        if scene.visible <= ALL_OF_THEM:
            # A few more, since some may have come since they were counted.
            return self._look(scene, [ask.promising(asked, scene.visible + OF_A_TIER)]), True
        all_matches = False
        if scene.visible <= EXACT:
            found = self._look(scene, [ask.promising(asked, CLOSELY)])
            if asked.speaker or asked.only_when or len(_matching(asked, found)) < PRIOR_DEPTH:
                matching = [self._look(scene, [body]) for body in ask.matching(asked, CLOSELY)]
                all_matches = all(len(part) < CLOSELY for part in matching)
                found = unique([*found, *chain.from_iterable(matching)])
        else:
            bodies = [ask.by_words(asked, CLOSELY)] if asked.terms else []
            if asked.vector is not None:
                bodies += [ask.by_nearness(asked, CLOSELY, field) for field in ("vector", "around")]
            found = self._look(scene, bodies or [ask.promising(asked, CLOSELY)])
        # Of every tier the best must be among them, however good the others are.
        here = Counter(passage.facts.tier for passage in _matching(asked, found))
        scarce = [
            tier
            for tier, size in scene.by_tier.items()
            if len(scene.by_tier) > 1 and not all_matches and here[tier] < A_FEW and size <= EXACT
        ]
        bodies = [body for tier in scarce for body in ask.matching(asked, OF_A_TIER, tier)]
        return unique([*found, *self._look(scene, bodies)]), all_matches

    def _look(self, scene: Scene, bodies: Sequence[Json]) -> list[Seen]:
        hits = [hit for body in bodies for hit in self._ask(scene.asked.vault, body, scores=True)["hits"]["hits"]]
        return unique([*map(seen, hits), *scene.tail])

    def _weighed(self, scene: Scene, passages: Sequence[Seen]) -> Candidates:
        sizes: dict[str, int] = {}
        if len(passages) < scene.visible + len(scene.tail):
            here = Counter(passage.facts.session for passage in passages if passage.facts.session)
            sizes = self._session_sizes(scene, [name for name, size in here.items() if size < SESSION_BEST])
        return candidates(scene.asked, passages, scene.counted, sizes)

    def _session_sizes(self, scene: Scene, sessions: Sequence[str]) -> dict[str, int]:
        if not sessions:
            return {}
        answer = self._ask(scene.asked.vault, ask.session_sizes(scene.asked, sessions))
        sizes = Counter(
            {bucket["key"]: bucket["doc_count"] for bucket in answer["aggregations"]["sessions"]["buckets"]}
        )
        sizes.update(passage.facts.session for passage in scene.tail)
        return dict(sizes)

    def _ask(self, vault: VaultRef, body: Json, scores: bool = False) -> Json:
        return self._transport.search(self._index, vault.vault_id, body, scores)


def _matching(asked: Question, passages: Sequence[Seen]) -> list[Seen]:
    return [
        each
        for each in passages
        if each.said
        or (asked.only_when and each.within)
        or (each.own or 0.0) > asked.noise
        or (asked.speaker and each.facts.role == asked.speaker)
    ]


def _named(rows: Sequence[Memory], stems: Sequence[str]) -> set[str]:
    asked = set(stems)
    return {
        hashed(memory.role) for memory in rows if (name := speaker_name(memory.role, memory.tier)) and name <= asked
    }
