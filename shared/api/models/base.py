"""What every JSON request shares: strict types, the common fields, one way of being read."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.api import strict_json
from shared.api.errors import invalid
from shared.api.models.fields import SessionId
from shared.domain.errors import InvalidRequest

# Beyond any client's extras, and few enough to name every unknown one.
MAX_FIELDS = 1_000


class Request(BaseModel):
    """A body that refuses unknown fields. `session_id`, `embeddings` and `model` may stand in every body.

    `may_be_empty` says whether no body at all means ``{}``.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)
    may_be_empty: ClassVar[bool] = False

    session_id: SessionId | None = None
    embeddings: str | None = None
    model: object = None

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """The request in a body. Raises `InvalidRequest` or `TooLarge`."""
        strict_json.check_raw_size(raw)
        text = strict_json.decode(raw)
        if not text.strip(" \t\r\n"):
            if not cls.may_be_empty:
                raise InvalidRequest.field("body", "is empty", "Send a JSON object with Content-Type application/json.")
            return cls()
        value = strict_json.parse_object(text)
        if len(value) > MAX_FIELDS:
            raise InvalidRequest.field("body", f"has more than {MAX_FIELDS} fields")
        if strict_json.must_be_measured(len(raw)):
            strict_json.check_compact_size(strict_json.compact_size(value))
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise invalid(error) from None


class OpenRequest(Request):
    """A body that clients of other servers send too: what it does not know, it ignores."""

    model_config = ConfigDict(extra="ignore")


class NoBody(Request):
    """Only the common fields, or nothing at all."""

    may_be_empty: ClassVar[bool] = True
