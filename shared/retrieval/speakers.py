"""Who is meant when a query names someone who speaks in the vault."""

from __future__ import annotations

from shared.retrieval.tokens import tokens

GENERAL_ROLES = frozenset({"user", "assistant", "system", "tool", "function", "developer", "human", "ai", "model"})
"""Roles that name no one: a query that says "user" asks for no speaker."""


def speaker_name(role: str, tier: int) -> frozenset[str]:
    """The stems that a query must hold to name this speaker; empty for a role that names no one."""
    if tier != 1 or role.casefold() in GENERAL_ROLES:
        return frozenset()
    return frozenset(tokens(role))
