"""Field types that several requests share, with what they refuse in words a person can act on."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from shared.domain import text as text_rules
from shared.domain import times

MAX_SESSION_CHARACTERS = 512
TEXT_PARTS = frozenset(("text", "input_text", "output_text"))
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _refuse(kind: str, problem: str) -> PydanticCustomError:
    # The text is a template; braces in it would be read as placeholders.
    return PydanticCustomError(kind, problem.replace("{", "(").replace("}", ")"))


def content_text(value: object) -> str:
    """The text of a message's content: a string, nothing, or the text parts of a list joined with newlines."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise _refuse("content", "must be a string, null or a list of parts")
    texts = []
    for number, part in enumerate(value):
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, dict):
            raise _refuse("content", f"part {number} must be an object with a type")
        elif part.get("type") in TEXT_PARTS:
            if not isinstance(part.get("text"), str):
                raise _refuse("content", f"part {number} needs its text as a string")
            texts.append(part["text"])
    return "\n".join(texts)


def instant_ms(value: object) -> int | None:
    """Milliseconds of an RFC 3339 string or of a Unix time in milliseconds."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return times.parse_instant(value)
        except ValueError as error:
            raise _refuse("timestamp", f"must be an RFC 3339 time or Unix milliseconds ({error})") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refuse("timestamp", "must be an RFC 3339 time or an integer of Unix milliseconds")
    if not times.MIN_MS <= value <= times.MAX_MS:
        raise _refuse("timestamp", "lies outside the years 1 to 9999; Unix times are in milliseconds")
    return value


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _refuse("number", "must be a number")
    return float(value)


def _not_blank(value: str) -> str:
    if text_rules.is_blank(value):
        raise _refuse("blank", "must not be blank")
    return value


def canonical_uuid(value: str) -> str:
    """The lower-case form of a UUID written with hyphens."""
    folded = value.lower()
    if not _UUID.fullmatch(folded):
        raise _refuse("uuid", "must be a UUID such as 9b2f1c34-6a7e-4d21-8f0a-3b5c9d7e1a22")
    return folded


def _distinct(values: Sequence[str]) -> Sequence[str]:
    if len(set(values)) != len(values):
        raise _refuse("distinct", "must name every id once")
    return values


def _once_each(values: list[int]) -> list[int]:
    return sorted(set(values))


SessionId = Annotated[str, Field(max_length=MAX_SESSION_CHARACTERS)]
Role = Annotated[str, Field(min_length=1, max_length=256)]
Query = Annotated[str, Field(min_length=1, max_length=text_rules.MAX_CHARACTERS), AfterValidator(_not_blank)]
NotBlank = AfterValidator(_not_blank)
Uuid = Annotated[str, AfterValidator(canonical_uuid), Field(json_schema_extra={"format": "uuid"})]
UuidList = Annotated[list[Uuid], Field(min_length=1, max_length=500), AfterValidator(_distinct)]
Importance = Annotated[int, Field(ge=1, le=10)]
Tier = Annotated[int, Field(ge=1, le=3)]
Tiers = Annotated[list[Tier], Field(min_length=1, max_length=500), AfterValidator(_once_each)]
MaxTokens = Annotated[float, BeforeValidator(_number)]

Content = Annotated[
    str,
    BeforeValidator(content_text),
    WithJsonSchema(
        {
            "description": "Text, or the parts that chat clients send; only text parts are kept.",
            "anyOf": [
                {"type": "string"},
                {"type": "null"},
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"type": {"type": "string"}, "text": {"type": "string"}},
                        "required": ["type", "text"],
                    },
                },
            ],
        }
    ),
]
Timestamp = Annotated[
    int | None,
    BeforeValidator(instant_ms),
    WithJsonSchema(
        {
            "description": "RFC 3339, or Unix milliseconds. By default now.",
            "anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "integer", "minimum": times.MIN_MS, "maximum": times.MAX_MS},
                {"type": "null"},
            ],
        }
    ),
]
