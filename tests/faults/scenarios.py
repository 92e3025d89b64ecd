"""The verbs of the matrix: each with the vault that it finds, and how its caller goes on when no answer came."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from shared.domain.batch import Batch, Entry
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget
from shared.ports.directory import KeyRecord
from shared.ports.store import CheckedOut, Idempotency, Lease, Released, TimelineQuery
from tests.contract.model import ModelStore
from tests.contract.rows import LEASE, MINUTE, NOW, uuid7
from tests.faults.stage import Site

Does = Callable[[Site], Any]
DAY = 1440 * MINUTE
LATER = NOW + 2 * LEASE
ROWS = [
    Memory(uuid7(number), 1, f"memory {number}", "user", NOW + number, number, NOW, session_id=f"s{number % 2}")
    for number in range(1, 8)
]
IDS = [row.id for row in ROWS]
BIG = [
    Memory(uuid7(number), 1, f"{number:x}{number**40:x}", "user", NOW + number, number, NOW) for number in range(31, 35)
]
ONCE = Idempotency("key", "body", NOW + DAY)
FOUR, TWO = Budget(max_rows=4), Budget(max_rows=2)
BATCH, OTHER, FRESH = (f"cb_{number:032x}" for number in (1, 2, 3))
ENTRIES = [Entry(uuid7(number), f"reflection {number}", number - 45, 9) for number in (50, 51)]
WRITTEN = [entry.id for entry in ENTRIES]


def is_same(first: Any, repeated: Any) -> bool:
    return bool(first == repeated)


@dataclass(frozen=True)
class Scenario:
    """`verb` on the vault that `before` makes; `cut` is a call whose process dies after its first transaction.

    `again` is what the caller does after a failure, if that is safe; its answer need only be the `same`. Without one
    a failed verb has happened or not. `returns` says that the content is then what an undisturbed verb leaves.
    `small` are limits of the adapter, lowered so that little data takes many steps. A `quiet` verb raises nothing. A
    `losable` one may be lost with its answer, and never happens twice.
    """

    name: str
    verb: Does
    before: Sequence[Does] = ()
    cut: Does | None = None
    again: Does | None = None
    same: Callable[[Any, Any], bool] = is_same
    returns: bool = True
    small: Mapping[str, int] = field(default_factory=dict)
    quiet: bool = False
    losable: bool = False
    reads: bool = False


SMALL = {
    "settling.STEP_ROOM": 5, "undoing.UNDO_ROOM": 4, "staging.ROOM": 4, "staging.MAX_OPERATIONS": 8,
    "rows.DELETED_AT_ONCE": 3, "restoring.MAX_OPERATIONS": 5, "restoring.HEADERS_AT_ONCE": 1,
    "purging.LISTED_AT_ONCE": 5, "table.MAX_DELETES": 3,
}  # fmt: skip
SHORT = SMALL | {"settling.STEP_ROOM": 2}
TINY = {"staging.MAX_BYTES": 500, "layout.PART_BYTES": 250, "staging.PART_BYTES": 250, "staging.MAX_OPERATIONS": 12}
"""Parts of one row each, and a write that is larger than one transaction."""
HEAVY = {"staging.MAX_BYTES": 1_500, "settling.MAX_BYTES": 1_500, "rows.MAX_BYTES": 1_500, "settling.PART_BYTES": 100}
"""Two rows fill a transaction."""


def append(rows: Sequence[Memory], once: Idempotency | None = None) -> Does:
    return lambda site: site.store.append(site.vault, rows, once, NOW)


def checkout(batch_id: str, budget: Budget, now_ms: int = NOW, tier: int = 1) -> Does:
    return lambda site: site.store.checkout(site.vault, tier, budget, Lease(batch_id, now_ms, LEASE))


def commit(batch_id: str = BATCH, entries: Sequence[Entry] = ENTRIES, now_ms: int = NOW + MINUTE) -> Does:
    return lambda site: site.store.commit(site.vault, batch_id, entries, now_ms)


def release(site: Site) -> Any:
    return site.store.release(site.vault, BATCH, NOW + MINUTE)


def renew(site: Site) -> Any:
    return site.store.renew(site.vault, BATCH, NOW + MINUTE)


def reopen(site: Site) -> Any:
    return site.store.reopen(site.vault, BATCH, NOW + MINUTE)


def delete(*ids: str) -> Does:
    return lambda site: site.store.delete(site.vault, ids, NOW + MINUTE)


def late_checkout(site: Site) -> Any:
    """By a caller who lost an answer and comes again when every lease has run out."""
    return site.store.checkout(site.vault, 1, FOUR, Lease(FRESH, LATER, LEASE))


def same_rows(first: Any, repeated: Any) -> bool:
    return isinstance(repeated, CheckedOut) and repeated.memories == first.memories


def same_commit(first: Any, repeated: Any) -> bool:
    return (first.created, first.sources_consolidated, first.debt) == (
        repeated.created,
        repeated.sources_consolidated,
        repeated.debt,
    )


def same_append(first: Any, repeated: Any) -> bool:
    return (first.ids, first.debt) == (repeated.ids, repeated.debt)


def same_release(first: Released, repeated: Released) -> bool:
    return (first.state, first.debt) == (repeated.state, repeated.debt) and repeated.returned in (0, first.returned)


def same_deletion(first: Any, repeated: Any) -> bool:
    gone = {memory_id for memory_id, _ in first.rows}
    return set(repeated.rows) <= set(first.rows) and gone >= set(repeated.not_found) - set(first.not_found)


FREE = (append(ROWS[:4]), append(ROWS[4:]))
LEASED = (*FREE, checkout(BATCH, FOUR))
SETTLED = (*LEASED, commit())
TIMES = TimelineQuery(NOW - DAY, NOW + DAY, frozenset((1, 2, 3)), True, 4)

WRITING = [
    Scenario("append", append(ROWS[:3]), FREE[1:]),
    Scenario("append with a key", append(ROWS[:3], ONCE), FREE[1:], again=append(ROWS[:3], ONCE), same=same_append),
    Scenario("append repeated", append(ROWS[:3], ONCE), (append(ROWS[:3], ONCE),), again=append(ROWS[:3], ONCE)),
    Scenario("append with an expired key", append(ROWS[3:5], ONCE),
             (append(ROWS[:3], Idempotency("key", "earlier", NOW - 30 * DAY)),), again=append(ROWS[3:5], ONCE),
             same=same_append),
    Scenario("large append", append(ROWS), small=SMALL),
    Scenario("large append with a key", append(ROWS, ONCE), again=append(ROWS, ONCE), same=same_append, small=SMALL),
    Scenario("large append repeated half-way", append(ROWS, ONCE), cut=append(ROWS, ONCE),
             again=append(ROWS, ONCE), small=SMALL),
    Scenario("very large append", append(BIG, ONCE), again=append(BIG, ONCE), same=same_append, small=SMALL | TINY),
    Scenario("checkout", checkout(BATCH, FOUR), FREE, again=late_checkout, same=same_rows, returns=False),
    Scenario("checkout beside a lease", checkout(OTHER, FOUR), (*FREE, checkout(BATCH, TWO)),
             again=lambda site: site.store.checkout(site.vault, 1, Budget(), Lease(FRESH, LATER, LEASE)),
             same=lambda first, repeated: {*first.memories} <= {*repeated.memories}, returns=False),
    Scenario("checkout with a lease to fence", checkout(OTHER, FOUR, LATER), LEASED,
             again=lambda site: site.store.checkout(site.vault, 1, FOUR, Lease(FRESH, LATER + 2 * LEASE, LEASE)),
             same=same_rows, returns=False, small=SMALL),
    Scenario("checkout with a commit to help", checkout(OTHER, FOUR, LATER), LEASED, cut=commit(),
             again=lambda site: site.store.checkout(site.vault, 1, FOUR, Lease(FRESH, LATER + 2 * LEASE, LEASE)),
             same=same_rows, returns=False, small=SMALL),
    Scenario("checkout with a large append to finish", checkout(BATCH, FOUR), cut=append(ROWS),
             again=late_checkout, same=same_rows, returns=False, small=SMALL),
    Scenario("checkout of reflections", checkout(OTHER, FOUR, tier=2), SETTLED,
             again=lambda site: site.store.checkout(site.vault, 2, FOUR, Lease(FRESH, LATER, LEASE)),
             same=same_rows, returns=False),
    Scenario("checkout of nothing", checkout(OTHER, FOUR), (append(ROWS[:4]), checkout(BATCH, FOUR)),
             again=checkout(OTHER, FOUR)),
    Scenario("commit", commit(), LEASED, again=commit(), same=same_commit, small=SMALL),
    Scenario("commit in short steps", commit(), LEASED, again=commit(), same=same_commit, small=SHORT),
    Scenario("commit of heavy rows", commit(), LEASED, again=commit(), same=same_commit, small=HEAVY),
    Scenario("reopen of heavy rows", reopen, SETTLED, again=reopen, small=HEAVY),
    Scenario("delete heavy rows", delete(*IDS[:5]), FREE, again=delete(*IDS[:5]), same=same_deletion, small=HEAVY),
    Scenario("commit repeated", commit(), SETTLED, again=commit(), small=SMALL),
    Scenario("commit repeated half-way", commit(), LEASED, cut=commit(), again=commit(), small=SMALL),
    Scenario("commit too late", commit(now_ms=LATER), LEASED, again=commit(now_ms=LATER)),
    Scenario("commit a month late", commit(now_ms=NOW + 30 * DAY), LEASED, again=commit(now_ms=NOW + 30 * DAY)),
    Scenario("commit of deleted rows", commit(), (*LEASED, delete(*IDS[:4])), again=commit(),
             same=lambda first, repeated: {first, repeated} <= {"sources_deleted", "lease_expired"}),
    Scenario("release", release, LEASED, again=release, same=same_release),
    Scenario("release a month late", lambda site: site.store.release(site.vault, BATCH, NOW + 30 * DAY), LEASED,
             again=lambda site: site.store.release(site.vault, BATCH, NOW + 30 * DAY)),
    Scenario("renew", renew, LEASED, again=renew),
    Scenario("renew a month late", lambda site: site.store.renew(site.vault, BATCH, NOW + 30 * DAY), LEASED,
             again=lambda site: site.store.renew(site.vault, BATCH, NOW + 30 * DAY)),
    Scenario("reopen", reopen, SETTLED, again=reopen, small=SMALL),
    Scenario("reopen repeated half-way", reopen, SETTLED, cut=reopen, again=reopen, small=SMALL),
    Scenario("delete free rows", delete(*IDS[:4], uuid7(99)), FREE, again=delete(*IDS[:4]),
             same=same_deletion, small=SMALL),
    Scenario("delete consolidated rows", delete(*IDS[1:6]), SETTLED, again=delete(*IDS[1:6]),
             same=same_deletion, small=SMALL),
    Scenario("delete reflections", delete(*WRITTEN), SETTLED, again=delete(*WRITTEN), same=same_deletion),
]  # fmt: skip

READING = [
    Scenario("get", lambda site: site.store.get(site.vault, IDS), SETTLED),
    Scenario("debt", lambda site: site.store.debt(site.vault), SETTLED),
    Scenario("totals", lambda site: site.store.totals(site.vault), SETTLED),
    Scenario("timeline", lambda site: site.store.timeline(site.vault, TIMES), SETTLED),
    Scenario("spanning", lambda site: site.store.spanning(site.vault, TIMES), SETTLED),
    Scenario("export", lambda site: site.store.export(site.vault, None, 5), SETTLED),
    Scenario("session", lambda site: site.store.session_ids(site.vault, "s1", 3), SETTLED),
    Scenario("batch", lambda site: site.store.batch(site.vault, BATCH), SETTLED),
    Scenario("sources", lambda site: site.store.sources(site.vault, BATCH, 1, 2), SETTLED),
    Scenario("sources half-way", lambda site: site.store.sources(site.vault, BATCH, 0, 9), LEASED, cut=commit(),
             small=SMALL),
    Scenario("written by", lambda site: site.store.written_by(site.vault, [BATCH]), SETTLED),
    Scenario("beside", lambda site: site.store.beside(site.vault, "s1", (NOW + 3, IDS[2]), 2), SETTLED),
    Scenario("recent", lambda site: site.store.recent(site.vault, 0, 1000), SETTLED),
]  # fmt: skip


def key(site: Site, name: str = "", minter: str | None = None) -> KeyRecord:
    vault_id = site.vault.vault_id
    return KeyRecord(f"{vault_id}{name}", f"{vault_id}{name}", vault_id, name, frozenset("rw"), NOW, minter)


def known(site: Site) -> Any:
    return site.directory.add(key(site))


@cache
def exported() -> tuple[tuple[Memory, ...], tuple[Batch, ...]]:
    """Rows and headers as another vault's export gives them."""
    model, vault = ModelStore(), VaultRef("elsewhere", 1)
    model.append(vault, ROWS, None, NOW)
    model.checkout(vault, 1, FOUR, Lease(BATCH, NOW, LEASE))
    model.commit(vault, BATCH, ENTRIES, NOW + MINUTE)
    model.checkout(vault, 2, FOUR, Lease(OTHER, NOW, LEASE))
    model.commit(vault, OTHER, [Entry(uuid7(60), "what it means", 7, 9)], NOW + MINUTE)
    return model.export(vault, None, 100), tuple(model.batches(vault, [BATCH, OTHER]).values())


def restore(site: Site) -> Any:
    return site.store.restore(site.next_content, *exported(), NOW)


def opened(site: Site) -> Any:
    return site.directory.open_import(site.vault)


def finish(site: Site) -> Any:
    return site.directory.finish_import(site.vault, 2)


def bump(site: Site) -> Any:
    return site.directory.next_epoch(site.vault.vault_id, unbind=True)


def purge(site: Site) -> Any:
    return site.store.purge(site.vault.vault_id, 2)


def disable(site: Site) -> Any:
    return site.directory.disable(key(site, "m").key_id, site.vault.vault_id, site.vault.vault_id)


def touch(site: Site) -> Any:
    site.directory.open(site.vault.vault_id)
    return site.directory.touch(site.vault.vault_id, NOW + DAY)


def either(*answers: object) -> Callable[[Any, Any], bool]:
    return lambda first, repeated: first in answers and repeated in answers


MOVING = [
    Scenario("restore", restore, (known, opened), again=restore, small=SMALL),
    Scenario("seal", lambda site: site.store.seal(site.vault), again=lambda site: site.store.seal(site.vault)),
    Scenario("complete import", lambda site: site.store.complete_import(site.next_content), (known, opened, restore),
             again=lambda site: site.store.complete_import(site.next_content), small=SMALL),
    Scenario("purge", purge, (known, *SETTLED, bump), again=purge, small=SMALL),
    Scenario("add a key", known, again=known),
    Scenario("add a minted key", lambda site: site.directory.add(key(site, "m", site.vault.vault_id)), (known,),
             again=lambda site: site.directory.add(key(site, "m", site.vault.vault_id))),
    Scenario("open", lambda site: site.directory.open(site.vault.vault_id), (known,)),
    Scenario("list keys", lambda site: site.directory.listed(site.vault.vault_id, site.vault.vault_id), (known,)),
    Scenario("disable a key", disable, (known, lambda site: site.directory.add(key(site, "m", site.vault.vault_id))),
             again=disable, same=either(True, False)),
    Scenario("touch", touch, (known,), again=touch, quiet=True),
    Scenario("bind a model", lambda site: site.directory.bind_model(site.vault, "one"), (known,),
             again=lambda site: site.directory.bind_model(site.vault, "one")),
    Scenario("next epoch", bump, (known,), again=bump, same=either(2, 3), returns=False),
    Scenario("open an import", opened, (known,), again=opened),
    Scenario("cancel an import", lambda site: site.directory.cancel_import(site.vault, 2), (known, opened),
             again=lambda site: site.directory.cancel_import(site.vault, 2)),
    Scenario("finish an import", finish, (known, opened), again=finish, same=either(None, "stale_epoch")),
    Scenario("note a purge", lambda site: site.directory.purged(site.vault.vault_id, 2), (known, bump),
             again=lambda site: site.directory.purged(site.vault.vault_id, 2)),
    Scenario("record a use", lambda site: site.usage.record(site.vault.vault_id, "2026-01-01", "search", 5, 1),
             quiet=True, losable=True),
    Scenario("read the use", lambda site: site.usage.read(site.vault.vault_id, "2026-01-01", "2026-01-02"),
             (lambda site: site.usage.record(site.vault.vault_id, "2026-01-01", "search", 5, 1),)),
]  # fmt: skip

SCENARIOS = [*WRITING, *READING, *MOVING]
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
