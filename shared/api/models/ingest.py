"""POST /v1/memory/ingest"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from shared.api.models.base import OpenRequest
from shared.api.models.fields import Content, Role, Timestamp
from shared.domain.text import check_text, is_blank
from shared.usecases.ingest import NewMessage


class Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, hide_input_in_errors=True)

    role: Role
    content: Content
    timestamp: Timestamp = None
    memory: bool | None = Field(None, description="false: do not store this message")


class IngestRequest(OpenRequest):
    messages: Annotated[list[Message], Field(min_length=1, max_length=500)]

    def to_store(self) -> list[NewMessage]:
        """The messages that have text and may be kept. Raises `TooLarge` for one above the limits of a memory."""
        kept = []
        for number, message in enumerate(self.messages):
            if message.memory is False or is_blank(message.content):
                continue
            check_text(f"messages.{number}.content", message.content)
            kept.append(NewMessage(message.role, message.content, message.timestamp))
        return kept
