"""Requests that read: search, prepare, date-search, inspect."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.api.models.base import OpenRequest, Request
from shared.api.models.fields import Content, Importance, MaxTokens, Query, Role, Tiers, Uuid

DEFAULT_LIMIT = 10
# Far beyond any conversation; a bound on the work that a hostile body can cause.
MAX_TURNS = 10_000


class SearchRequest(OpenRequest):
    query: Query
    limit: Annotated[int, Field(ge=1, le=500)] | None = DEFAULT_LIMIT
    tiers: Tiers | None = None
    importance: Importance | None = None


class Turn(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, hide_input_in_errors=True)

    role: Role = "user"
    content: Content


class PrepareRequest(OpenRequest):
    messages: Annotated[list[Turn], Field(max_length=MAX_TURNS)]
    density: Literal["low", "default", "high", "xhigh"] | None = "default"
    context_limit: Annotated[int, Field(ge=0, le=250)] | None = None
    # Not `max_tokens`: chat clients send that along, and mean the length of the model's answer.
    context_tokens: Annotated[int, Field(ge=200, le=200_000)] | None = None
    tiers: Tiers | None = None
    importance: Importance | None = None


class DateSearchRequest(Request):
    from_: Annotated[str, Field(alias="from", min_length=1, max_length=64)]
    to: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    query: Query | None = None
    tiers: Tiers | None = None
    max_tokens: MaxTokens | None = None
    order: Literal["newest_first", "oldest_first"] | None = "newest_first"
    importance: Importance | None = None
    after_id: Uuid | None = None


class InspectRequest(Request):
    memory_id: Uuid
    offset: Annotated[int, Field(ge=0)] | None = 0
