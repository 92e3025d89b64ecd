"""Export lines say everything about a row, and imports refuse what is not such a line."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.batch import Batch, Created, State
from shared.domain.errors import FieldProblem, InvalidRequest
from shared.domain.memory import Covers, Memory
from shared.domain.text import est_tokens
from shared.domain.transfer import (
    DEFAULT_PAGE_ROWS,
    MAX_PAGE_BYTES,
    MAX_PAGE_ROWS,
    canonical_uuid,
    header_json,
    parse_line,
    row_json,
)

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


LONG = "holds more than 100000 characters or 300000 bytes of UTF-8"
NO_DATE = "is not a date or a datetime (not an ISO 8601 date or datetime)"
RATING = "must be an integer 1 to 10"


@pytest.mark.parametrize(
    ("line", "field", "problem"),
    [
        (raw_line(tier=4), "tier", "must be an integer 1 to 3"),
        (raw_line(tier=0), "tier", "must be an integer 1 to 3"),
        (raw_line(tier=True), "tier", "must be an integer 1 to 3"),
        (raw_line(tier="1"), "tier", "must be an integer 1 to 3"),
        (raw_line(content=" "), "content", "must hold text, not only white space"),
        (raw_line(content=None), "content", "must be a string"),
        (raw_line(content="x" * 100_001), "content", LONG),
        (raw_line(content="🙂" * 75_001), "content", LONG),
        (raw_line(content="a\ud800"), "content", "contains a lone surrogate at character 1"),
        (raw_line(role=""), "role", "must hold 1 to 1024 characters"),
        (raw_line(role=1), "role", "must be a string"),
        (raw_line(role="x" * 1_025), "role", "must hold 1 to 1024 characters"),
        (raw_line(session_id=""), "session_id", "must hold 1 to 1024 characters"),
        (raw_line(session_id=5), "session_id", "must be a string"),
        (raw_line(id="no"), "id", "must be a UUID"),
        (raw_line(id="9b2f1c346a7e4d218f0a3b5c9d7e1a22"), "id", "must be a UUID"),
        (raw_line(date="soon"), "date", NO_DATE),
        (raw_line(date=None), "date", "must be a string"),
        (raw_line(created_at="soon"), "created_at", NO_DATE),
        (raw_line(importance=5), "importance", "belongs to reflections only"),
        (raw_line(covers=HEADER["covers"]), "covers", "belongs to reflections only"),
        (raw_line(batch_id="cb_9"), "batch_id", "belongs to reflections only"),
        (raw_line(consolidation=[]), "consolidation", "must be an object"),
        (
            raw_line(consolidation={"position": 3, "batch": HEADER}),
            "consolidation.position",
            "must be an integer 0 to 2",
        ),
        (
            raw_line(consolidation={"position": -1, "batch": HEADER}),
            "consolidation.position",
            "must be an integer 0 to 2",
        ),
        (
            raw_line(consolidation={"position": 0, "batch": {**HEADER, "tier": 2}}),
            "consolidation.batch",
            "is the header of a batch of another tier",
        ),
        (raw_line(consolidation={"position": 0}), "consolidation.batch", "must be an object"),
        (reflection_line(content="x" * 8_001), "content", "holds more than 8000 characters or 300000 bytes of UTF-8"),
        (reflection_line(importance=11), "importance", RATING),
        (reflection_line(importance=0), "importance", RATING),
        (reflection_line(importance=None), "importance", RATING),
        (reflection_line(covers=None), "covers", "must be an object"),
        (reflection_line(covers={"from": "2026-02-03", "to": "2026-02-02"}), "covers.to", "lies before `from`"),
        (reflection_line(date="2026-02-02T00:00:00.001Z"), "date", "of a reflection is the end of its coverage"),
        (reflection_line(batch_id=None), "batch_id", "must be a string"),
        (reflection_line(batch_id="xx_9"), "batch_id", "must be a batch id"),
        (reflection_line(batch_id="cb_" + "9" * 65), "batch_id", "must be a batch id"),
        (reflection_line(batch_id="cb_8"), "batch", "is not the header of the batch in `batch_id`"),
        (reflection_line(batch={**HEADER, "tier": 2}), "batch", "is not the header of the batch in `batch_id`"),
        (reflection_line(batch={**HEADER, "tier": 3}), "batch.tier", "must be an integer 1 to 2"),
        (reflection_line(batch={**HEADER, "count": 0}), "batch.count", "must be an integer 1 to 10000"),
        (reflection_line(batch={**HEADER, "count": 10_001}), "batch.count", "must be an integer 1 to 10000"),
        (reflection_line(batch={**HEADER, "tokens": -1}), "batch.tokens", "must be an integer 0 to 9007199254740991"),
        (
            reflection_line(batch={**HEADER, "lease_ms": 0}),
            "batch.lease_ms",
            "must be an integer 1 to 9007199254740991",
        ),
        (
            reflection_line(batch={**HEADER, "sources_consolidated": 10_001}),
            "batch.sources_consolidated",
            "must be an integer 0 to 10000",
        ),
        (
            reflection_line(batch={**HEADER, "sources_consolidated": -1}),
            "batch.sources_consolidated",
            "must be an integer 0 to 10000",
        ),
        (
            reflection_line(batch={**HEADER, "sources_deleted": 10_001}),
            "batch.sources_deleted",
            "must be an integer 0 to 10000",
        ),
        (
            reflection_line(batch={**HEADER, "sources_deleted": -1}),
            "batch.sources_deleted",
            "must be an integer 0 to 10000",
        ),
        (reflection_line(batch={**HEADER, "created": 5}), "batch.created", "must be a list of at most 100 items"),
        (reflection_line(batch={**HEADER, "created": [5]}), "batch.created.0", "must be an object"),
        (
            reflection_line(batch={**HEADER, "created": HEADER["created"] * 101}),
            "batch.created",
            "must be a list of at most 100 items",
        ),
        (reflection_line(batch={**HEADER, "created": [{"id": "x"}]}), "batch.created.0.id", "must be a UUID"),
        (
            reflection_line(
                batch={**HEADER, "created": [*HEADER["created"], {**HEADER["created"][0], "importance": 11}]}
            ),
            "batch.created.1.importance",
            RATING,
        ),
        (reflection_line(entry=100), "entry", "must be an integer 0 to 99"),
        (reflection_line(entry=-1), "entry", "must be an integer 0 to 99"),
    ],
)
def test_a_bad_line_is_named_with_its_field_and_problem(line: dict[str, object], field: str, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_line(7, line, now_ms=0)
    assert refused.value.message == f"line 7: {field} {problem}"
    assert refused.value.details == (FieldProblem(f"line.7.{field}", problem),)
    assert refused.value.extra == {"line": 7}


def test_lines_are_taken_up_to_every_limit() -> None:
    raw = parse_line(1, raw_line(content="€" * 100_000, role="r" * 1_024, session_id="s" * 1_024), now_ms=0).memory
    assert (len(raw.text), len(raw.role), len(raw.session_id or "")) == (100_000, 1_024, 1_024)
    assert raw.tokens == 75_000
    header = {
        **HEADER,
        "id": "cb_" + "0aZ_-9".rjust(64, "9"),
        "count": 10_000,
        "tokens": 2**53 - 1,
        "lease_ms": 2**53 - 1,
        "sources_consolidated": 10_000,
        "sources_deleted": 10_000,
        "created": HEADER["created"] * 100,
    }
    line = reflection_line(content="x" * 8_000, entry=99, batch_id=header["id"], batch=header)
    parsed = parse_line(1, line, now_ms=0)
    assert (len(parsed.memory.text), parsed.memory.entry, len(parsed.batches[0].created)) == (8_000, 99, 100)
    assert (parsed.batches[0].tokens, parsed.batches[0].lease_ms) == (2**53 - 1, 2**53 - 1)


def test_lines_are_taken_down_to_every_limit() -> None:
    day = "2026-02-02T00:00:00.000Z"
    header = {
        **HEADER,
        "count": 1,
        "tokens": 0,
        "lease_ms": 1,
        "sources_consolidated": 0,
        "created": [],
        "covers": {"from": day, "to": day},
    }
    line = reflection_line(content="x", role="r", importance=1, batch=header, covers=header["covers"])
    parsed = parse_line(1, line, now_ms=0)
    assert (parsed.memory.importance, parsed.batches[0].tokens, parsed.batches[0].lease_ms) == (1, 0, 1)
    assert parsed.memory.covers == Covers(parsed.memory.date_ms, parsed.memory.date_ms)


def test_a_header_before_its_commit_has_no_commit_time() -> None:
    leased = Batch("cb_1", 1, State.LEASED, 1, 1, Covers(0, 0), leased_ms=0, expires_ms=900_000, lease_ms=900_000)
    assert header_json(leased) == {
        "id": "cb_1",
        "tier": 1,
        "count": 1,
        "tokens": 1,
        "covers": {"from": "1970-01-01T00:00:00.000Z", "to": "1970-01-01T00:00:00.000Z"},
        "leased_at": "1970-01-01T00:00:00.000Z",
        "expires_at": "1970-01-01T00:15:00.000Z",
        "lease_ms": 900_000,
        "renewed_at": None,
        "committed_at": None,
        "created": [],
        "sources_consolidated": 0,
        "sources_deleted": 0,
    }


def test_a_raw_line_says_everything_and_nothing_of_batches() -> None:
    raw = Memory("id", 1, "hello", "user", 9, 2, 10, session_id="s")
    assert row_json(raw, None, None, []) == {
        "id": "id",
        "tier": 1,
        "content": "hello",
        "role": "user",
        "date": "1970-01-01T00:00:00.009Z",
        "session_id": "s",
        "importance": None,
        "covers": None,
        "batch_id": None,
        "consolidated_into": [],
        "created_at": "1970-01-01T00:00:00.010Z",
    }


def test_pages_are_those_of_the_contract() -> None:
    assert (MAX_PAGE_BYTES, MAX_PAGE_ROWS, DEFAULT_PAGE_ROWS) == (4_194_304, 5_000, 1_000)


@given(st.uuids())
def test_uuids_in_their_usual_form_are_taken(uuid: UUID) -> None:
    assert canonical_uuid(str(uuid)) == canonical_uuid(str(uuid).upper()) == str(uuid)
    for other in (uuid.hex, f"{{{uuid}}}", f"urn:uuid:{uuid}", f"{uuid} "):
        assert canonical_uuid(other) is None
