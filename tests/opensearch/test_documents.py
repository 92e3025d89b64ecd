"""Documents and signals, without a node."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from shared.adapters.opensearch.chains import pieces
from shared.adapters.opensearch.documents import Numbers, document, document_id, read_facts, stored_vector
from shared.adapters.opensearch.signals import passes
from shared.domain.memory import Covers, VaultRef
from shared.ports.search import Filters
from shared.retrieval.passages import Facts, PassageTable
from shared.retrieval.postings import Postings
from shared.retrieval.ranking import session_priors
from shared.retrieval.words import counted_scores, length_norms, word_scores
from tests.contract.rows import NOW, Maker

VAULT = VaultRef("v", 3)


def test_a_document_holds_the_words_of_its_neighbours_and_names_them() -> None:
    make = Maker()
    rows = [make.raw(text, NOW + n, "s") for n, text in enumerate(("ant", "bee", "cat", "dog", "elk", "fox"))]
    chain = [piece for row in rows for piece in pieces(row)]
    source = json.loads(document(VAULT, chain, 2, {}).line(7))
    heading = len(chain[2].heading)
    assert (source["seq"], source["waiting"], source["said"]) == (7, True, ["bee", "cat", "dog"])
    animals = {
        name: [word for word in source[name] if word in {"ant", "bee", "cat", "dog", "elk", "fox"}]
        for name in ("own", "near", "wide")
    }
    assert animals == {"own": ["cat"], "near": ["bee", "cat", "dog"], "wide": ["ant", "bee", "cat", "dog", "elk"]}
    assert source["context"] == sorted(rows[n].id for n in (0, 1, 3, 4))
    facts = read_facts(source["facts"])
    assert facts.lengths == (heading + 1, 3 * (heading + 1), 5 * (heading + 1))
    assert (facts.memory_id, facts.number, facts.tier, facts.date_ms) == (rows[2].id, 0, 1, NOW + 2)
    assert document(VAULT, chain, 2, {}).id == document_id(VAULT, rows[2].id, 0) == f"v#3#{rows[2].id}#0"


def test_the_context_vector_is_the_direction_of_own_and_half_of_either_side() -> None:
    make = Maker()
    chain = [piece for n in range(3) for piece in pieces(make.raw(f"row {n}", NOW + n, "s"))]
    vectors: dict[tuple[str, int], Numbers] = {chain[0].key: [1.0, 0.0], chain[1].key: [0.0, 1.0]}
    source = json.loads(document(VAULT, chain, 1, vectors).line(1))
    assert source["vector"] == [0.0, 1.0]
    assert source["around"] == pytest.approx([1 / 5**0.5, 2 / 5**0.5], abs=1e-6)
    vectors[chain[2].key] = [-1.0, 0.0]
    assert json.loads(document(VAULT, chain, 1, vectors).line(1))["around"] == [0.0, 1.0]
    vectors |= {chain[0].key: [0.0, -1.0], chain[2].key: [0.0, -1.0]}
    assert "around" not in json.loads(document(VAULT, chain, 1, vectors).line(1))


def test_vectors_are_stored_at_unit_length() -> None:
    rough = np.array([0.3001, -0.4002, 1e-9], np.float32)
    stored = np.array(stored_vector(rough))
    assert float(np.linalg.norm(stored)) == pytest.approx(1.0, abs=1e-6)
    assert stored[:2] == pytest.approx([0.6, -0.8], abs=1e-3)
    assert stored_vector(np.zeros(3, np.float32)) == []


def test_filters_judge_a_row_by_its_coverage() -> None:
    make = Maker()
    raw = make.raw("raw", NOW, "s")
    insight = replace(raw, tier=2, session_id=None, importance=4, covers=Covers(NOW - 10, NOW))
    assert passes(raw, Filters(from_ms=NOW, to_ms=NOW + 1))
    assert not passes(raw, Filters(from_ms=NOW - 5, to_ms=NOW))
    assert passes(insight, Filters(from_ms=NOW - 5, to_ms=NOW - 4))
    assert not passes(insight, Filters(to_ms=NOW - 10))
    assert passes(insight, Filters(session_id="other", min_importance=4))
    assert not passes(insight, Filters(min_importance=5))
    assert not passes(raw, Filters(min_importance=1))
    assert not passes(raw, Filters(session_id="other"))
    assert not passes(raw, Filters(tiers=frozenset({2, 3})))


def test_scores_from_given_counts_are_those_of_a_table_that_counts_itself() -> None:
    dice = np.random.default_rng(5)
    table, postings = PassageTable(2), Postings()
    held: list[dict[int, int]] = []
    for number in range(30):
        held.append({term: int(times) for term, times in enumerate(dice.integers(0, 4, 6)) if times})
        facts = Facts((0, number + 1), 1, 0, number, number, number, number // 11, 0)
        slot = table.append(facts, [sum(held[-1].values()) + 5])
        postings.add(slot, np.array(list(held[-1]), np.int32), np.array(list(held[-1].values()), np.uint16))
    wanted, _ = word_scores(table, postings, range(6), length_norms(table))
    counts = np.zeros((3, 6, 30), np.float32)
    lengths = np.zeros((3, 30), np.float32)
    for at in range(30):
        for field in range(3):
            for other in range(at - field, at + field + 1):
                if 0 <= other < 30 and other // 11 == at // 11:
                    lengths[field, at] += sum(held[other].values()) + 5
                    for term, times in held[other].items():
                        counts[field, term, at] += times
    frequencies = [[int(np.count_nonzero(counts[field, term])) for term in range(6)] for field in range(3)]
    assert counted_scores(counts, lengths, frequencies, 30).tolist() == wanted[1:31].tolist()


def test_passages_that_are_left_out_count_for_their_session_as_the_lowest_that_is_here() -> None:
    base, session = np.array([0.9, 0.5]), np.array([0, 1], np.int32)
    assert session_priors(base, session).tolist() == pytest.approx([0.9, 0.5])
    sizes = np.array([7, 1], np.int32)
    assert session_priors(base, session, sizes).tolist() == pytest.approx([(0.9 + 0.5 + 0.5) / 3, 0.5])
