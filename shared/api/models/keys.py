"""Requests about keys, and deletion by id."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from shared.api.models.base import Request
from shared.api.models.fields import UuidList
from shared.domain.keys import SCOPES


def _known(scope: str) -> str:
    if scope not in SCOPES:
        raise PydanticCustomError("scope", "must be one of {known}", {"known": ", ".join(sorted(SCOPES))})
    return scope


Scope = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": sorted(SCOPES)})]


class CreateKeyRequest(Request):
    may_be_empty: ClassVar[bool] = True

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=100)] | None = None
    vault: Literal["new", "same"] | None = "new"


class DeleteIdsRequest(Request):
    ids: UuidList
