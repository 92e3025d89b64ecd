"""What a tool, a resource or a prompt comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shared.usecases.services import Answer, Caller, Services


@dataclass(frozen=True, slots=True)
class Result:
    """`structured` conforms to the tool's output schema; `text` says the same to a model, `brief` what of it must be
    said even where there is no room for the memories.
    """

    structured: Answer
    text: str
    brief: str = ""


Run = Callable[[Services, Caller, dict[str, object]], Result]
"""Runs a tool on its arguments, as they came. Raises `StrataError`."""
Runs = Mapping[str, Run]
