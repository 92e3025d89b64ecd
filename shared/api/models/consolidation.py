"""Requests of the consolidation transaction."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from shared.api.models.base import Request
from shared.api.models.fields import Importance, MaxTokens, NotBlank
from shared.domain.batch import MAX_ENTRIES, MAX_ENTRY_CHARACTERS, MIN_ENTRIES


class CheckoutRequest(Request):
    tier: Annotated[int, Field(ge=1, le=2, description="1: raw memories, 2: reflections")]
    max_tokens: MaxTokens | None = None


class NewEntry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    text: Annotated[str, Field(min_length=1, max_length=MAX_ENTRY_CHARACTERS), NotBlank]
    importance: Importance


class CommitRequest(Request):
    batch_id: str
    entries: Annotated[list[NewEntry], Field(min_length=MIN_ENTRIES, max_length=MAX_ENTRIES)]

    def pairs(self) -> list[tuple[str, int]]:
        """(text, importance) of every entry."""
        return [(entry.text, entry.importance) for entry in self.entries]


class BatchRequest(Request):
    """release, renew, reopen"""

    batch_id: str
