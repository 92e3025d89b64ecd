"""The bodies of searches. Nothing in them weighs a word by what other vaults hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.adapters.opensearch.documents import content, hashed
from shared.adapters.opensearch.mapping import COUNTING, FIELDS
from shared.adapters.opensearch.transport import Json
from shared.domain.memory import TIERS, VaultRef
from shared.domain.window import Window
from shared.ports.search import Filters
from shared.retrieval.ranking import OWN_SHARE, PERIOD_WEIGHT, SPEAKER_WEIGHT
from shared.retrieval.words import FIELD_WEIGHTS, K1, SATURATION

SAID, WITHIN, OWN, AROUND = "said", "within", "own", "around"
"""Names under which a hit tells that its text or its neighbour's holds a word of the query, that it is of a period that
the query names, and its two cosines plus one."""

# The widest field takes more time than the two others together and says little more.
_ESTIMATED_BY = FIELDS[:2]
_SHARES = [weight / sum(FIELD_WEIGHTS[: len(_ESTIMATED_BY)]) for weight in FIELD_WEIGHTS[: len(_ESTIMATED_BY)]]
_LIFT = 4096.0
_FIRST = 2.0
_COSINE = "1.0 + cosineSimilarity(params.q, doc['{field}'])"
# An estimate of what the ranking will make of a passage: it only decides which passages are looked at closely.
_ESTIMATE = """
double sum = _score;
boolean said = sum >= params.lift;
if (said) { sum -= params.lift; }
double words = sum / (sum + params.saturation);
boolean speaks = params.speaker != '' && doc['role'].value == params.speaker;
boolean within = false;
for (period in params.periods) {
  within = within || (doc['covers_to'].value >= period[0] && doc['covers_from'].value < period[1]);
}
double base = words;
if (params.q != null && doc['vector'].size() > 0) {
  double own = cosineSimilarity(params.q, doc['vector']);
  double around = doc['around'].size() > 0 ? cosineSimilarity(params.q, doc['around']) : 0.0;
  said = said || own > params.noise;
  base = params.own * Math.max(0.0, own) + params.around * Math.max(0.0, around) + params.words * words;
}
if (speaks) { base += params.speaks; }
if (within) { base += params.inside; }
return (said || speaks || (within && params.when)) ? base + params.first : base;
"""


@dataclass(frozen=True, slots=True)
class Question:
    """`terms` are the stems that carry meaning, in order, with `weights` by field and term once they are counted.

    `only_when` says that rows of the `periods` match whatever they say.
    """

    vault: VaultRef
    filters: Filters
    stems: tuple[str, ...]
    terms: tuple[str, ...]
    vector: list[float] | None
    noise: float
    weights: tuple[tuple[float, ...], ...] = ()
    speaker: str = ""
    nearness: float = 0.5
    periods: tuple[Window, ...] = ()
    only_when: bool = False
    text: str = ""


def visible(vault: VaultRef, filters: Filters) -> list[Json]:
    """Clauses that every passage found must meet."""
    clauses: list[Json] = [{"term": {"content": content(vault)}}]
    if not filters.tiers >= set(TIERS):
        clauses.append({"terms": {"tier": sorted(filters.tiers)}})
    if filters.min_importance is not None:
        clauses.append({"range": {"importance": {"gte": filters.min_importance}}})
    if filters.session_id is not None:
        without = {"bool": {"must_not": [{"exists": {"field": "session"}}]}}
        clauses.append({"bool": {"should": [{"term": {"session": hashed(filters.session_id)}}, without]}})
    if filters.from_ms is not None:
        clauses.append({"range": {"covers_to": {"gte": filters.from_ms}}})
    if filters.to_ms is not None:
        clauses.append({"range": {"covers_from": {"lt": filters.to_ms}}})
    return clauses


def counting(asked: Question, recent: Sequence[str]) -> Json:
    """How many passages the vault has, how many of them hold each term, who is named, which recent rows are there."""
    words = {
        f"{field} {place}": {"term": {name: term}}
        for field, name in enumerate(FIELDS)
        for place, term in enumerate(asked.terms)
    }
    named = {"terms": list(asked.stems), "minimum_should_match_field": "speaker_size"}
    aggs: Json = {
        "visible": {
            "filter": {"bool": {"filter": visible(asked.vault, asked.filters)}},
            "aggs": {"tiers": {"terms": {"field": "tier"}}},
        },
        "named": {
            "filter": {"terms_set": {"speaker": named}},
            "aggs": {"roles": {"terms": {"field": "role", "size": 2}}},
        },
    }
    if words:
        aggs["words"] = {"filters": {"filters": words}}
    if recent:
        aggs["held"] = {
            "filter": {"bool": {"filter": [{"terms": {"memory": list(recent)}}, {"term": {"number": 0}}]}},
            "aggs": {"rows": {"terms": {"field": "memory", "size": len(recent)}}},
        }
    query = {"bool": {"filter": [{"term": {"content": content(asked.vault)}}]}}
    return {"size": 0, "track_total_hits": True, "query": query, "aggs": aggs}


def holding(vault: VaultRef, terms: Sequence[str]) -> Json:
    """How many passages hold each term in their own words."""
    words = {str(place): {"term": {FIELDS[0]: term}} for place, term in enumerate(terms)}
    query = {"bool": {"filter": [{"term": {"content": content(vault)}}]}}
    return {"size": 0, "query": query, "aggs": {"words": {"filters": {"filters": words}}}}


def saying(vault: VaultRef, terms: Sequence[str]) -> Json:
    """Which of the terms some text of the vault has. Few passages hold one, so they are walked through by hand."""
    query = {"bool": {"filter": [{"term": {"content": content(vault)}}, {"terms": {"said": list(terms)}}]}}
    said = {"field": "said", "include": list(terms), "size": len(terms), "execution_hint": "map"}
    return {"size": 0, "query": query, "aggs": {"said": {"terms": said}}}


def promising(asked: Question, size: int) -> Json:
    """The `size` passages of the highest base score by estimate, every one weighed."""
    return _with_signals(asked, size, _estimated(asked, visible(asked.vault, asked.filters), False, 0.0))


def matching(asked: Question, size: int, tier: int | None = None) -> list[Json]:
    """Those that match, of one tier if wanted: the `size` best of those that hold a word, and the `size` nearest."""
    clauses = visible(asked.vault, asked.filters)
    if tier is not None:
        clauses.append({"term": {"tier": tier}})
    bodies = []
    either: list[Json] = [{"terms": {"said": list(asked.terms)}}] if asked.terms else []
    if asked.speaker:
        either.append({"term": {"role": asked.speaker}})
    if asked.only_when:
        either += _touched(asked)
    if either:
        # Only these are weighed, and they are found without looking at any other.
        holding_words = [*clauses, {"bool": {"should": either}}]
        bodies.append(_with_signals(asked, size, _estimated(asked, holding_words, True, 0.0)))
    if asked.vector is not None:
        bodies.append({**_with_signals(asked, size, _nearest(asked, clauses)), "min_score": _score(asked.noise)})
    return bodies


def _nearest(asked: Question, clauses: Sequence[Json]) -> Json:
    """Every passage weighed by its own vector: the store's own script takes a fraction of the time of one of ours."""
    inside = {"bool": {"filter": [*clauses, {"exists": {"field": "vector"}}]}}
    params = {"field": "vector", "query_value": asked.vector, "space_type": "cosinesimil"}
    return {"script_score": {"query": inside, "script": {"lang": "knn", "source": "knn_score", "params": params}}}


def _score(cosine: float) -> float:
    """What the store calls a cosine, a little lower, since it rounds."""
    return max(0.0, (1.0 + cosine) / 2 - 1e-6)


def all_in_order(asked: Question, size: int) -> Json:
    """The `size` best, those that match before the others."""
    clauses = visible(asked.vault, asked.filters)
    return _with_signals(asked, size, _estimated(asked, clauses, True, _FIRST))


def _touched(asked: Question) -> list[Json]:
    """Rows of each period that the query names."""
    return [
        {"bool": {"filter": [
            {"range": {"covers_to": {"gte": period.from_ms}}}, {"range": {"covers_from": {"lt": period.to_ms}}}
        ]}}
        for period in asked.periods
    ]  # fmt: skip


def _estimated(asked: Question, clauses: Sequence[Json], favours: bool, first: float) -> Json:
    """`favours` says whether speakers and periods count."""
    script = {
        "source": _ESTIMATE,
        "params": {
            "q": asked.vector, "noise": asked.noise, "lift": _LIFT, "saturation": SATURATION, "speaker": asked.speaker,
            "own": asked.nearness * OWN_SHARE, "around": asked.nearness * (1 - OWN_SHARE),
            "words": 1 - asked.nearness, "first": first,
            "speaks": SPEAKER_WEIGHT if favours else 0.0, "inside": PERIOD_WEIGHT if favours else 0.0,
            "when": asked.only_when, "periods": [[period.from_ms, period.to_ms] for period in asked.periods],
        },
    }  # fmt: skip
    should = _weighed(asked)
    if asked.terms:
        should.append({"constant_score": {"filter": {"terms": {"said": list(asked.terms)}}, "boost": _LIFT}})
    return {"script_score": {"query": {"bool": {"filter": list(clauses), "should": should}}, "script": script}}


def by_words(asked: Question, size: int) -> Json:
    """For vaults that are too large to be weighed as a whole."""
    query = {
        "bool": {"filter": visible(asked.vault, asked.filters), "should": _weighed(asked), "minimum_should_match": 1}
    }
    return _with_signals(asked, size, query)


def by_nearness(asked: Question, size: int, field: str) -> Json:
    """The approximate nearest, the filters inside the clause: asking for k gives k whenever k exist."""
    inside = {"bool": {"filter": visible(asked.vault, asked.filters)}}
    query = {"knn": {field: {"vector": asked.vector, "k": size, "filter": inside}}}
    return _with_signals(asked, size, query)


def session_sizes(asked: Question, sessions: Sequence[str]) -> Json:
    """How many visible passages each of these sessions has."""
    clauses = [*visible(asked.vault, asked.filters), {"terms": {"session": list(sessions)}}]
    found = {"terms": {"field": "session", "size": len(sessions), "include": list(sessions)}}
    return {"size": 0, "query": {"bool": {"filter": clauses}}, "aggs": {"sessions": found}}


def _weighed(asked: Question) -> list[Json]:
    return [
        {"term": {name: {"value": term, "boost": max((K1 + 1) * weight * share, 0.001)}}}
        for name, share, weights in zip(_ESTIMATED_BY, _SHARES, asked.weights, strict=False)
        for term, weight in zip(asked.terms, weights, strict=True)
    ]


def _with_signals(asked: Question, size: int, query: Mapping[str, object]) -> Json:
    """Each hit with its exact signals: a filter that every hit passes, whose named parts are scored for hits only."""
    parts: list[Json] = []
    for field, name in enumerate(FIELDS):
        parts += [
            {"term": {name: {"value": term, "boost": COUNTING, "_name": f"{field} {place}"}}}
            for place, term in enumerate(asked.terms)
        ]
    if asked.terms:
        parts.append({"terms": {"said": list(asked.terms), "_name": SAID}})
    if asked.periods:
        parts.append({"bool": {"should": _touched(asked), "_name": WITHIN}})
    if asked.vector is not None:
        parts += [
            {"script_score": {
                "query": {"exists": {"field": field}},
                "script": {"source": _COSINE.format(field=field), "params": {"q": asked.vector}},
                "_name": name,
            }}
            for field, name in (("vector", OWN), ("around", AROUND))
        ]  # fmt: skip
    return {
        "size": size,
        # Stored fields lie in compressed blocks, vectors among them: a thousand hits would unpack most of the index.
        "stored_fields": "_none_",
        "docvalue_fields": ["facts"],
        "track_total_hits": False,
        "query": query,
        # Where a filter decides, what might also match is never walked through.
        "post_filter": {"bool": {"filter": [{"match_all": {}}], "should": parts}},
    }
