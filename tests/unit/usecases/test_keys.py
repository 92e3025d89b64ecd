"""Opening vaults, minting and deleting keys."""

from dataclasses import replace
from typing import Any

import pytest

from shared.domain.errors import InsufficientScope, InvalidRequest, NotFound, Unauthorized
from shared.domain.keys import SCOPES, hash_key
from shared.usecases import keys
from shared.usecases.services import Policy
from tests.unit.usecases.world import World


def closed(world: World) -> World:
    world.services = replace(world.services, policy=Policy(default_model="small"))
    return world


def test_an_unknown_key_opens_an_empty_vault_of_its_own(world: World) -> None:
    first, again, other = world.caller("mk_user-123"), world.caller("mk_user-123"), world.caller("mk-user-123")
    assert first.vault == again.vault
    assert first.vault.vault_id != other.vault.vault_id
    assert first.scopes == SCOPES
    assert first.masked == "mk_…"


def test_a_suffix_belongs_to_the_request_not_to_the_key(world: World) -> None:
    narrowed = world.caller("mk_one:read")
    assert narrowed.scopes == {"memories:read"}
    assert narrowed.vault == world.caller("mk_one").vault
    assert world.caller("mk_one").scopes == SCOPES


@pytest.mark.parametrize("presented", ["", "sk_1", "mk_one:admin", "mk_one:"])
def test_what_is_no_key_opens_and_makes_nothing(world: World, presented: str) -> None:
    with pytest.raises(Unauthorized):
        keys.authenticate(world.services, presented)
    assert world.directory.open(hash_key("mk_one")) is None


def test_without_the_convenience_only_minted_keys_open(world: World) -> None:
    closed(world)
    with pytest.raises(Unauthorized):
        world.caller("mk_user")
    admin = keys.first_admin_key(world.services, "Admin")
    assert world.caller(admin).scopes == SCOPES
    assert world.caller(admin).key.name == "Admin"


def test_a_minted_key_has_a_new_vault_or_the_same(world: World) -> None:
    caller = world.caller()
    fresh: Any = keys.create_key(world.services, caller, None, None, "new")
    same: Any = keys.create_key(world.services, caller, "reader", ["memories:read"], "same")
    assert fresh["name"] == "New Key"
    assert fresh["scopes"] == sorted(SCOPES)
    assert fresh["created_at"] == "2026-02-02T02:40:00.000Z"
    assert set(fresh) == {"key", "key_id", "name", "scopes", "created_at"}
    assert world.caller(fresh["key"]).vault.vault_id != caller.vault.vault_id
    assert world.caller(same["key"]).vault == caller.vault
    assert world.caller(same["key"]).scopes == {"memories:read"}


def test_scopes_are_never_widened(world: World) -> None:
    caller = world.caller()
    admin: Any = keys.create_key(world.services, caller, None, ["keys:admin", "memories:read"], "same")
    minting = world.caller(admin["key"])
    child: Any = keys.create_key(world.services, minting, None, None, "new")
    assert child["scopes"] == ["keys:admin", "memories:read"]
    with pytest.raises(InsufficientScope, match="memories:write"):
        keys.create_key(world.services, minting, None, ["memories:read", "memories:write"], "new")
    for scopes in ([], ["memories:all"]):
        with pytest.raises(InvalidRequest, match="scopes"):
            keys.create_key(world.services, minting, None, scopes, "new")


def test_the_list_shows_keys_of_the_vault_and_own_mints_without_their_text(world: World) -> None:
    caller = world.caller()
    fresh: Any = keys.create_key(world.services, caller, "a", None, "new")
    same: Any = keys.create_key(world.services, caller, "b", None, "same")
    keys.create_key(world.services, world.caller("mk_stranger"), "c", None, "same")
    listed: Any = keys.list_keys(world.services, caller)
    assert {key["key_id"] for key in listed["keys"]} == {caller.key.key_id, fresh["key_id"], same["key_id"]}
    assert fresh["key"] not in repr(listed)
    used = {key["key_id"]: key["last_used_at"] for key in listed["keys"]}
    assert used[caller.key.key_id] == "2026-02-02T02:40:00.000Z"
    assert used[fresh["key_id"]] is None
    # The key that shares the vault sees its neighbours, not what another one minted elsewhere.
    seen: Any = keys.list_keys(world.services, world.caller(same["key"]))
    assert {key["key_id"] for key in seen["keys"]} == {caller.key.key_id, same["key_id"]}


def test_a_deleted_key_never_opens_again(world: World) -> None:
    caller = world.caller()
    other = world.caller("mk_two")
    minted: Any = keys.create_key(world.services, caller, None, None, "new")
    with pytest.raises(NotFound):
        keys.delete_key(world.services, other, minted["key_id"])
    assert keys.delete_key(world.services, caller, minted["key_id"]) == {"key_id": minted["key_id"], "deleted": True}
    with pytest.raises(Unauthorized):
        world.caller(minted["key"])
    with pytest.raises(NotFound):
        keys.delete_key(world.services, caller, minted["key_id"])
    keys.delete_key(world.services, other, other.key.key_id)
    with pytest.raises(Unauthorized):
        world.caller("mk_two")
