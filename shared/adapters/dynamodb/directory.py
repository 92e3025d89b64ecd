"""Keys and vaults, beside the contents in the one table.

Items::

    K#<hash>     K#<hash>     a key: id, vault, name, scopes, written, minter, used, off
    V#<vault>    V            a vault: epoch, written, model, importing, and what is to be purged
    V#<vault>    K#<key id>   the key's hash, among the keys that open the vault
    N#<minter>   K#<key id>   the key's hash, among those that the key `minter` made

`purge` of a vault is the first epoch to keep, while older contents may still be in the table; `purged` is the first
epoch that a finished purge kept.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from shared.adapters.dynamodb.counters import stale
from shared.adapters.dynamodb.layout import keyed
from shared.adapters.dynamodb.table import ConditionFailed, Table
from shared.adapters.dynamodb.values import Item, Key, delete, put, update
from shared.domain.errors import NotFound, StrataError
from shared.domain.memory import VaultRef
from shared.ports.directory import KeyRecord, VaultRecord

TOUCH_EVERY_MS = 3_600_000
"""A use that is noted is a write that is paid for, beside the request's own."""
KNOWN = 10_000
"""Keys, and bindings of vaults, that a process remembers."""
FIRST_EPOCH = 1
log = logging.getLogger("strata.dynamodb")


def record_key(key_hash: str) -> Key:
    return f"K#{key_hash}", f"K#{key_hash}"


def vault_key(vault_id: str) -> Key:
    return f"V#{vault_id}", "V"


def opener_key(vault_id: str, key_id: str) -> Key:
    return f"V#{vault_id}", f"K#{key_id}"


def minted_key(minter: str, key_id: str) -> Key:
    return f"N#{minter}", f"K#{key_id}"


class DynamoDirectory:
    """`shared.ports.directory.Directory`, and the contents that wait to be purged."""

    def __init__(self, table: Table) -> None:
        self._table = table
        # By key id: the key's hash, and when a use was noted last.
        self._known: dict[str, tuple[str, int]] = {}
        self._bound: dict[VaultRef, str] = {}

    def open(self, key_hash: str) -> tuple[KeyRecord, VaultRecord] | None:
        item = self._table.get(record_key(key_hash))
        if item is None:
            return None
        key = _key(item)
        self._know(key)
        return key, self.vault(key.vault_id)

    def vault(self, vault_id: str) -> VaultRecord:
        record = _vault(vault_id, self._vault_item(vault_id))
        # Not that of an open import: when it is cancelled, its number may come again with another model.
        if record.model is not None:
            self._bind(record.ref, record.model)
        return record

    def model(self, vault: VaultRef) -> str | None:
        """The model that a vault is bound to; None as long as there is none. Raises `NotFound`.

        A vault keeps it for as long as its epoch lasts, and no epoch comes back: what was read once is not read again.
        """
        known = self._bound.get(vault)
        return self.vault(vault.vault_id).model if known is None else known

    def _bind(self, vault: VaultRef, model: str) -> None:
        if len(self._bound) >= KNOWN and vault not in self._bound:
            self._bound.clear()
        self._bound[vault] = model

    def _vault_item(self, vault_id: str) -> Item:
        item = self._table.get(vault_key(vault_id))
        if item is None:
            raise NotFound("There is no such vault.")
        return item

    def add(self, key: KeyRecord) -> KeyRecord:
        reference: dict[str, object] = {"hash": key.key_hash}
        operations = [
            put(keyed(record_key(key.key_hash), _key_values(key)), "attribute_not_exists(#pk)"),
            update(
                vault_key(key.vault_id),
                "SET #epoch = if_not_exists(#epoch, :first), #written = if_not_exists(#written, :now)",
                first=FIRST_EPOCH,
                now=key.created_ms,
            ),
            put(keyed(opener_key(key.vault_id, key.key_id), reference)),
        ]
        if key.minted_by is not None:
            operations.append(put(keyed(minted_key(key.minted_by, key.key_id), reference)))
        try:
            self._table.transact(operations)
        except ConditionFailed as failed:
            key = _key(failed.items[0])
        self._know(key)
        return key

    def listed(self, vault_id: str, minted_by: str) -> Sequence[KeyRecord]:
        partitions = (vault_key(vault_id)[0], minted_key(minted_by, "")[0])
        hashes = {
            item["hash"]: None
            for partition in partitions
            for item in self._table.query(partition, low="K#", high="K$", attributes=("hash",))
        }
        items = self._table.get_all([record_key(key_hash) for key_hash in hashes])
        keys = [key for key in map(_key, items.values()) if not key.disabled]
        return sorted(keys, key=lambda key: (key.created_ms, key.key_id))

    def disable(self, key_id: str, vault_id: str, minted_by: str) -> bool:
        found = self._table.get(opener_key(vault_id, key_id)) or self._table.get(minted_key(minted_by, key_id))
        item = None if found is None else self._table.get(record_key(found["hash"]))
        if item is None or "off" in item:
            return False
        key = _key(item)
        off = update(record_key(key.key_hash), "SET #off = :off", "attribute_not_exists(#off)", off=True)
        shown = [delete(opener_key(key.vault_id, key_id))]
        if key.minted_by is not None:
            shown.append(delete(minted_key(key.minted_by, key_id)))
        return self._transacted([off, *shown])

    def touch(self, key_id: str, now_ms: int) -> None:
        known = self._known.get(key_id)
        if known is None or now_ms - known[1] < TOUCH_EVERY_MS:
            return
        self._known[key_id] = (known[0], now_ms)
        later = "attribute_exists(#pk) AND (attribute_not_exists(#used) OR #used < :now)"
        try:
            self._table.write(update(record_key(known[0]), "SET #used = :now", later, now=now_ms))
        except ConditionFailed:
            return
        except StrataError as error:
            log.warning("the use of a key was not noted: %s", error.code)

    def _know(self, key: KeyRecord) -> None:
        known = self._known.get(key.key_id)
        if known is None and len(self._known) >= KNOWN:
            self._known.clear()
        # Another process may have noted a use since.
        noted = max(key.last_used_ms or 0, 0 if known is None else known[1])
        self._known[key.key_id] = (key.key_hash, noted)

    def bind_model(self, vault: VaultRef, model: str) -> str:
        change = "SET #model = if_not_exists(#model, :model)"
        present = "#epoch = :epoch OR #importing = :epoch"
        try:
            item = self._table.write(update(vault_key(vault.vault_id), change, present, model=model, epoch=vault.epoch))
        except ConditionFailed as failed:
            raise stale() from failed
        assert item is not None, "an update answers with the item"
        return str(item["model"])

    def next_epoch(self, vault_id: str, unbind: bool) -> int:
        for _ in self._table.rounds():
            seen = _vault(vault_id, self._vault_item(vault_id))
            following = max(seen.epoch, seen.importing or 0) + 1
            importing = "attribute_not_exists(#importing)" if seen.importing is None else "#importing = :importing"
            change = update(
                vault_key(vault_id),
                "SET #epoch = :next, #purge = :next REMOVE #importing" + (", #model" if unbind else ""),
                f"#epoch = :seen AND {importing}",
                None,
                next=following,
                seen=seen.epoch,
                **({} if seen.importing is None else {"importing": seen.importing}),
            )
            # A transaction of one write has a name: when its answer is lost, the epoch is not moved twice.
            if self._transacted([change]):
                return following
        raise AssertionError("rounds end by raising")

    def open_import(self, vault: VaultRef) -> int:
        change = "SET #importing = if_not_exists(#importing, :next)"
        try:
            item = self._table.write(
                update(vault_key(vault.vault_id), change, "#epoch = :epoch", epoch=vault.epoch, next=vault.epoch + 1)
            )
        except ConditionFailed as failed:
            raise stale() from failed
        assert item is not None, "an update answers with the item"
        return int(item["importing"])

    def cancel_import(self, vault: VaultRef, importing: int) -> None:
        # Named, too: repeated after its answer was lost, it must not close an import that was opened since.
        self._transacted([
            update(
                vault_key(vault.vault_id),
                "REMOVE #importing",
                "#epoch = :epoch AND #importing = :importing",
                epoch=vault.epoch,
                importing=importing,
            )
        ])  # fmt: skip

    def finish_import(self, vault: VaultRef, importing: int) -> None:
        change = update(
            vault_key(vault.vault_id),
            "SET #epoch = :importing, #purge = :importing REMOVE #importing",
            "#epoch = :epoch AND #importing = :importing",
            epoch=vault.epoch,
            importing=importing,
        )
        if not self._transacted([change]):
            raise stale()

    def _transacted(self, operations: Sequence[Item]) -> bool:
        """False when a condition failed."""
        try:
            self._table.transact(operations)
        except ConditionFailed:
            return False
        return True

    def waiting_purge(self, vault_id: str) -> int | None:
        """The first epoch to keep, when contents of the vault were dropped and may still be in the table."""
        item = self._vault_item(vault_id)
        return int(item["purge"]) if "purge" in item else None

    def purged(self, vault_id: str, below: int) -> None:
        """Note that all epochs below the one given are gone."""
        key, due = vault_key(vault_id), "attribute_exists(#pk) AND #purge = :below"
        further = "attribute_exists(#pk) AND (attribute_not_exists(#purged) OR #purged < :below)"
        for change, condition in (("SET #purged = :below", further), ("REMOVE #purge", due)):
            try:
                self._table.write(update(key, change, condition, below=below))
            except ConditionFailed:
                continue


def _key_values(key: KeyRecord) -> dict[str, object]:
    return {
        "id": key.key_id, "vault": key.vault_id, "name": key.name, "scopes": " ".join(sorted(key.scopes)),
        "written": key.created_ms, "minter": key.minted_by, "used": key.last_used_ms, "off": key.disabled or None,
    }  # fmt: skip


def _key(item: Item) -> KeyRecord:
    return KeyRecord(
        key_id=item["id"],
        key_hash=item["sk"].removeprefix("K#"),
        vault_id=item["vault"],
        name=item["name"],
        scopes=frozenset(item["scopes"].split()),
        created_ms=item["written"],
        minted_by=item.get("minter"),
        last_used_ms=item.get("used"),
        disabled=item.get("off", False),
    )


def _vault(vault_id: str, item: Item) -> VaultRecord:
    return VaultRecord(vault_id, item["epoch"], item["written"], item.get("model"), item.get("importing"))
