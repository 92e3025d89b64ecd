"""Export lines say everything about a row, and imports refuse what is not such a line."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.batch import Batch, Created, State
from shared.domain.errors import InvalidRequest
from shared.domain.memory import Covers, Memory
from shared.domain.text import est_tokens
from shared.domain.transfer import canonical_uuid, parse_line, row_json

MS = st.integers(-(10**12), 10**13)
IDS = st.uuids().map(str)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=40).filter(
    lambda text: not text.isspace()
)
COVERS = st.tuples(MS, MS).map(lambda pair: Covers(min(pair), max(pair)))


@st.composite
def headers(draw: st.DrawFn, tier: int) -> Batch:
    return Batch(
        id=f"cb_{draw(st.integers(0, 9))}",
        tier=tier,
        state=State.SETTLED,
        count=draw(st.integers(1, 10_000)),
        tokens=draw(st.integers(1, 10**9)),
        covers=draw(COVERS),
        leased_ms=draw(MS),
        expires_ms=draw(MS),
        lease_ms=draw(st.integers(1, 10**9)),
        renewed_ms=draw(st.none() | MS),
        committed_ms=draw(MS),
        created=tuple(draw(st.lists(st.builds(Created, IDS, st.integers(1, 10)), max_size=4))),
        sources_consolidated=draw(st.integers(0, 10_000)),
        sources_deleted=draw(st.integers(0, 10_000)),
    )


@st.composite
def rows(draw: st.DrawFn) -> tuple[Memory, Batch | None, Batch | None]:
    tier = draw(st.integers(1, 3))
    text = draw(TEXTS)
    covers = draw(COVERS) if tier > 1 else None
    origin = draw(headers(tier - 1)) if tier > 1 else None
    above = draw(st.none() | headers(tier)) if tier < 3 else None
    memory = Memory(
        id=draw(IDS),
        tier=tier,
        text=text,
        role=draw(TEXTS),
        date_ms=covers.to_ms if covers else draw(MS),
        tokens=est_tokens(text),
        created_ms=draw(MS),
        session_id=draw(st.none() | TEXTS) if tier == 1 else None,
        importance=draw(st.integers(1, 10)) if tier > 1 else None,
        covers=covers,
        origin=origin.id if origin else None,
        entry=draw(st.integers(0, 99)) if origin else None,
        consolidated_by=above.id if above else None,
        position=draw(st.integers(0, above.count - 1)) if above else None,
    )
    return memory, origin, above


@given(rows(), st.lists(IDS, max_size=2))
def test_a_row_comes_back_as_it_went(row: tuple[Memory, Batch | None, Batch | None], into: list[str]) -> None:
    memory, origin, above = row
    line = json.loads(json.dumps(row_json(memory, origin, above, into)))
    assert line["consolidated_into"] == into
    parsed = parse_line(1, line, now_ms=0)
    assert parsed.memory == memory
    assert list(parsed.batches) == [batch for batch in (origin, above) if batch is not None]


def raw_line(**changes: object) -> dict[str, Any]:
    line: dict[str, object] = {
        "id": "9b2f1c34-6a7e-4d21-8f0a-3b5c9d7e1a22",
        "tier": 1,
        "content": "hello",
        "role": "user",
        "date": "2026-02-01T04:11:09.000Z",
    }
    return {**line, **changes}


HEADER: dict[str, Any] = {
    "id": "cb_9",
    "tier": 1,
    "count": 3,
    "tokens": 9,
    "covers": {"from": "2026-02-01T00:00:00.000Z", "to": "2026-02-02T00:00:00.000Z"},
    "leased_at": "2026-02-03T00:00:00.000Z",
    "expires_at": "2026-02-03T00:15:00.000Z",
    "lease_ms": 900_000,
    "renewed_at": None,
    "committed_at": "2026-02-03T00:05:00.000Z",
    "created": [{"id": "9b2f1c34-6a7e-4d21-8f0a-3b5c9d7e1a22", "importance": 8}],
    "sources_consolidated": 3,
    "sources_deleted": 0,
}


def reflection_line(**changes: object) -> dict[str, Any]:
    return raw_line(
        **{
            "tier": 2,
            "date": "2026-02-02T00:00:00.000Z",
            "importance": 8,
            "covers": HEADER["covers"],
            "batch_id": "cb_9",
            "entry": 0,
            "batch": HEADER,
            **changes,
        }
    )


def test_the_least_a_raw_line_needs() -> None:
    memory = parse_line(1, raw_line(id="9B2F1C34-6A7E-4D21-8F0A-3B5C9D7E1A22", extra=1), now_ms=77).memory
    assert (memory.id, memory.created_ms, memory.session_id) == ("9b2f1c34-6a7e-4d21-8f0a-3b5c9d7e1a22", 77, None)
    assert memory.tokens == 2


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (raw_line(tier=4), "tier"),
        (raw_line(tier=True), "tier"),
        (raw_line(tier="1"), "tier"),
        (raw_line(content=" "), "content"),
        (raw_line(content=None), "content"),
        (raw_line(content="x" * 100_001), "content"),
        (raw_line(content="🙂" * 75_001), "content"),
        (raw_line(content="a\ud800"), "content"),
        (raw_line(role=""), "role"),
        (raw_line(role=1), "role"),
        (raw_line(role="x" * 1_025), "role"),
        (raw_line(session_id=""), "session_id"),
        (raw_line(session_id=5), "session_id"),
        (raw_line(id="no"), "id"),
        (raw_line(id="9b2f1c346a7e4d218f0a3b5c9d7e1a22"), "id"),
        (raw_line(date="soon"), "date"),
        (raw_line(date=None), "date"),
        (raw_line(created_at="soon"), "created_at"),
        (raw_line(importance=5), "importance"),
        (raw_line(batch_id="cb_9"), "batch_id"),
        (raw_line(consolidation=[]), "consolidation"),
        (raw_line(consolidation={"position": 3, "batch": HEADER}), "consolidation.position"),
        (raw_line(consolidation={"position": 0, "batch": {**HEADER, "tier": 2}}), "consolidation.batch"),
        (raw_line(consolidation={"position": 0}), "consolidation.batch"),
        (reflection_line(content="x" * 8_001), "content"),
        (reflection_line(importance=11), "importance"),
        (reflection_line(importance=None), "importance"),
        (reflection_line(covers=None), "covers"),
        (reflection_line(covers={"from": "2026-02-03", "to": "2026-02-02"}), "covers.to"),
        (reflection_line(date="2026-02-02T00:00:00.001Z"), "date"),
        (reflection_line(batch_id=None), "batch_id"),
        (reflection_line(batch_id="xx_9"), "batch_id"),
        (reflection_line(batch_id="cb_8"), "batch"),
        (reflection_line(batch={**HEADER, "tier": 2}), "batch"),
        (reflection_line(batch={**HEADER, "count": 0}), "batch.count"),
        (reflection_line(batch={**HEADER, "created": 5}), "batch.created"),
        (reflection_line(batch={**HEADER, "created": [5]}), "batch.created.0"),
        (reflection_line(batch={**HEADER, "created": HEADER["created"] * 101}), "batch.created"),
        (reflection_line(batch={**HEADER, "created": [{"id": "x"}]}), "batch.created.0.id"),
        (reflection_line(entry=100), "entry"),
    ],
)
def test_a_bad_line_is_named_with_its_field(line: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_line(7, line, now_ms=0)
    assert refused.value.message.startswith(f"line 7: {field} ")
    assert [problem.field for problem in refused.value.details] == [f"line.7.{field}"]
    assert refused.value.extra == {"line": 7}


@given(st.uuids())
def test_uuids_in_their_usual_form_are_taken(uuid: UUID) -> None:
    assert canonical_uuid(str(uuid)) == canonical_uuid(str(uuid).upper()) == str(uuid)
    for other in (uuid.hex, f"{{{uuid}}}", f"urn:uuid:{uuid}", f"{uuid} "):
        assert canonical_uuid(other) is None
