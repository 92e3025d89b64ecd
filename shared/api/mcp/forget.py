"""Tools that remove."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shared.api.mcp.recall import vault_ref
from shared.api.mcp.results import Result, Runs
from shared.api.models.tools import DeleteMemories, ForgetAllMemories
from shared.usecases.deletion import delete_ids, delete_vault
from shared.usecases.services import Caller, Services


def delete_memories(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    answer: Any = delete_ids(services, caller, DeleteMemories.of(given).ids)
    done = {name: answer[name] for name in ("requested", "deleted", "not_found")}
    return Result(done, f"Deleted {done['deleted']} of {done['requested']}; {done['not_found']} do not exist.")


def forget_all_memories(services: Services, caller: Caller, given: dict[str, object]) -> Result:
    ForgetAllMemories.of(given)
    # All of it, whatever session the client's headers name.
    answer: Any = delete_vault(services, replace(caller, session_id=None), reset=False)
    done = {"deleted": answer["deleted"], "message": answer["message"], "vaultRef": vault_ref(caller)}
    return Result(done, str(done["message"]))


RUNS: Runs = {"delete_memories": delete_memories, "forget_all_memories": forget_all_memories}
