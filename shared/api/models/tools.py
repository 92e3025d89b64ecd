"""Arguments of MCP tools: the fields of the REST requests, closed, with words for the model that fills them in."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.api.errors import invalid
from shared.api.models.base import MAX_FIELDS
from shared.api.models.consolidation import NewEntry
from shared.api.models.fields import (
    Importance,
    MaxTokens,
    NotBlank,
    Query,
    Role,
    SessionId,
    Tiers,
    Timestamp,
    Uuid,
    UuidList,
)
from shared.api.models.retrieval import DEFAULT_LIMIT
from shared.domain.batch import MAX_ENTRIES, MIN_ENTRIES
from shared.domain.errors import InvalidRequest

MAX_LIMIT = 100
DEFAULT_TOKENS = 10_000.0
"""Of memories in one answer. A conversation has less room than a program: REST answers hold five times as much."""
MAX_REQUEST_KEY_CHARACTERS = 200

_QUERY = Field(description="The question, in natural language")
_TIERS = Field(None, description="Which tiers: 1 raw memories, 2 reflections, 3 high-level reflections. Default: all")
_IMPORTANCE = Field(None, description="Only reflections of at least this importance; raw memories have none")
_PAGE = Field(description="How many tokens of memories to return at once, 1,000 to 200,000")


class Arguments(BaseModel):
    """What a tool takes. An unknown name is an error: a misspelt filter would widen what is found."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    @classmethod
    def of(cls, given: dict[str, object]) -> Self:
        """Raises `InvalidRequest` naming every argument that is wrong. 10.0 is an integer, as JSON Schema has it."""
        if len(given) > MAX_FIELDS:
            raise InvalidRequest.field("arguments", f"hold more than {MAX_FIELDS} names")
        try:
            return cls.model_validate(_whole(given))
        except ValidationError as error:
            raise invalid(error, hint="Correct the arguments and call the tool again.") from None


def _whole(value: object) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return {name: _whole(each) for name, each in value.items()} if isinstance(value, dict) else value


class SearchMemories(Arguments):
    query: Annotated[Query, _QUERY]
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT, description="How many memories at most")] = DEFAULT_LIMIT
    tiers: Tiers | None = _TIERS
    importance: Importance | None = _IMPORTANCE
    session_id: SessionId | None = Field(None, description="Leaves out raw memories of other sessions")


class DateSearchMemories(Arguments):
    from_: Annotated[
        str,
        Field(alias="from", min_length=1, max_length=64, description="First day or instant, such as 2026-03-01"),
    ]
    to: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        None, description="Last day, included, or an instant, excluded. Default: now"
    )
    query: Query | None = Field(None, description="The most relevant memories of the period instead of all of them")
    tiers: Tiers | None = _TIERS
    importance: Importance | None = _IMPORTANCE
    order: Literal["newest_first", "oldest_first"] = "newest_first"
    max_tokens: Annotated[MaxTokens, _PAGE] = DEFAULT_TOKENS
    after_id: Uuid | None = Field(None, description="`returned.after_id` of the page before")


class InspectMemory(Arguments):
    memory_id: Annotated[Uuid, Field(description="An id that a search returned")]
    offset: Annotated[int, Field(ge=0, description="`next_offset` of the page before")] = 0


class Search(Arguments):
    query: Annotated[Query, _QUERY]


class Fetch(Arguments):
    id: Annotated[Uuid, Field(description="An id that `search` returned")]


class MemoryStatus(Arguments):
    pass


class StoreMemory(Arguments):
    text: Annotated[str, Field(min_length=1, description="What to keep, word for word"), NotBlank]
    role: Annotated[Role, Field(description="Who said it: user, assistant or a name")] = "user"
    timestamp: Timestamp = Field(None, description="When it was said, if not now: RFC 3339 or Unix milliseconds")
    session_id: SessionId | None = Field(None, description="A label for the conversation or project it belongs to")
    request_key: Annotated[str, Field(min_length=1, max_length=MAX_REQUEST_KEY_CHARACTERS)] | None = Field(
        None, description="Any word of your own; a repetition with the same word and text stores nothing twice"
    )


class ConsolidateMemories(Arguments):
    tier: Annotated[int, Field(ge=1, le=2, description="1: raw memories become reflections; 2: reflections tier 3")] = 1
    max_tokens: Annotated[MaxTokens, _PAGE] = DEFAULT_TOKENS


class CommitReflections(Arguments):
    batch_id: Annotated[str, Field(description="As consolidate_memories returned it")]
    entries: Annotated[list[NewEntry], Field(min_length=MIN_ENTRIES, max_length=MAX_ENTRIES)]

    def pairs(self) -> list[tuple[str, int]]:
        """(text, importance) of every entry."""
        return [(entry.text, entry.importance) for entry in self.entries]


class DeleteMemories(Arguments):
    ids: Annotated[UuidList, Field(description="Ids that a search returned")]


class ForgetAllMemories(Arguments):
    confirmation: Annotated[Literal["DELETE ALL MEMORIES"], Field(description="The words, exactly")]
