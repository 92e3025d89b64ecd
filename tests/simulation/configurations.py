"""Small configurations, each around one race. Every name in them is fixed, so a call means the same in any order."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.batch import Entry
from shared.domain.memory import Memory, VaultRef
from shared.domain.selection import Budget
from shared.ports.store import Idempotency, Lease, TimelineQuery
from tests.contract.rows import NOW, uuid7
from tests.simulation.world import Call, Configuration

LEASE = 1000
LATE = NOW + LEASE
EARLY = NOW + LEASE - 1
ALL_TIERS = frozenset((1, 2, 3))


def row(number: int) -> Memory:
    return Memory(uuid7(number), 1, f"row {number}", "user", NOW + number, 10 + number, NOW, session_id="s")


def rows(*numbers: int) -> list[Memory]:
    return [row(number) for number in numbers]


def name(number: int) -> str:
    return f"cb_{number:032x}"


def append(numbers: Sequence[int], key: str | None = None, body: str = "b", until: int = LATE, now: int = NOW) -> Call:
    once = None if key is None else Idempotency(key, body, until)
    return Call(f"append {numbers}", lambda site: site.store.append(site.vault, rows(*numbers), once, now))


def checkout(batch: int, now: int = NOW, tier: int = 1, most: int = 10_000, lease: int = LEASE) -> Call:
    return Call(
        f"checkout {batch}",
        lambda site: site.store.checkout(site.vault, tier, Budget(max_rows=most), Lease(name(batch), now, lease)),
    )


def commit(batch: int, *new: int, now: int = NOW + 1) -> Call:
    entries = [Entry(uuid7(number), f"reflection {number}", 1 + number % 10, 3) for number in new]
    return Call(f"commit {batch}", lambda site: site.store.commit(site.vault, name(batch), entries, now))


def release(batch: int, now: int = NOW + 1) -> Call:
    return Call(f"release {batch}", lambda site: site.store.release(site.vault, name(batch), now))


def renew(batch: int, now: int = NOW + 1) -> Call:
    return Call(f"renew {batch}", lambda site: site.store.renew(site.vault, name(batch), now))


def reopen(batch: int, now: int = NOW + 1) -> Call:
    return Call(f"reopen {batch}", lambda site: site.store.reopen(site.vault, name(batch), now))


def delete(*numbers: int) -> Call:
    ids = [uuid7(number) for number in numbers]
    return Call(f"delete {numbers}", lambda site: site.store.delete(site.vault, ids, NOW))


def get(*numbers: int) -> Call:
    ids = [uuid7(number) for number in numbers]
    return Call(f"get {numbers}", lambda site: site.store.get(site.vault, ids))


def timeline() -> Call:
    query = TimelineQuery(0, 2**50, ALL_TIERS, newest_first=True, limit=100)
    return Call("timeline", lambda site: site.store.timeline(site.vault, query))


TOTALS = Call("totals", lambda site: site.store.totals(site.vault))
DEBT = Call("debt", lambda site: site.store.debt(site.vault))
SEAL = Call("seal", lambda site: site.store.seal(site.vault))
BUMP = Call("next epoch", lambda site: site.bump())
PURGE = Call("purge", lambda site: site.store.purge(site.vault.vault_id, site.vault.epoch + 1))


def append_next(numbers: Sequence[int], key: str | None = None) -> Call:
    """The same request, sent again to the vault's next content."""
    once = None if key is None else Idempotency(key, "b", LATE)
    return Call(
        f"append {numbers} after the drop",
        lambda site: site.store.append(VaultRef(site.vault.vault_id, site.vault.epoch + 1), rows(*numbers), once, NOW),
    )


def of(title: str, before: Sequence[Call], *workers: Sequence[Call]) -> Configuration:
    drops = any(call is BUMP for calls in workers for call in calls)
    return Configuration(title, before, workers, [name(number) for number in range(1, 200)], drops)


SOME = append([1, 2, 3])
LEASED = [SOME, checkout(1)]
COMMITTED = [*LEASED, commit(1, 50, 51)]
REFLECTIONS_LEASED = [*COMMITTED, checkout(2, tier=2)]

CONFIGURATIONS = [
    of("two checkouts", [SOME], [checkout(1, most=2)], [checkout(2, most=2)]),
    of("three checkouts of two rows", [append([1, 2])], *[[checkout(n, most=1)] for n in (1, 2, 3)]),
    of("checkout and commit at the expiry, clocks apart", LEASED, [commit(1, 50, now=EARLY)], [checkout(2, now=LATE)]),
    of(
        "two late commits and a checkout, clocks apart",
        LEASED,
        [commit(1, 50, now=LATE), commit(1, 50, now=EARLY)],
        [commit(1, 60, now=EARLY)],
        [checkout(2, now=EARLY)],
    ),
    of("two commits with other entries", LEASED, [commit(1, 50, 51)], [commit(1, 60)]),
    of("a commit, its replay and a reader", LEASED, [commit(1, 50, 51), commit(1, 52)], [get(50, 51), timeline()]),
    of("delete and commit", LEASED, [delete(1, 2)], [commit(1, 50)]),
    of("delete of everything and commit", LEASED, [delete(1, 2, 3)], [commit(1, 50), commit(1, 51)]),
    of("two deletes", COMMITTED, [delete(1, 2, 50)], [delete(2, 1, 51)]),
    of("delete and checkout", [SOME], [delete(2)], [checkout(1)], [TOTALS]),
    of("reclaim and commit", LEASED, [checkout(2, now=LATE)], [commit(1, 50)], [commit(1, 51)]),
    of("reclaim by release and commit", LEASED, [release(1, now=LATE), checkout(2)], [commit(1, 50)]),
    of("renew and reclaim", LEASED, [renew(1, now=EARLY)], [checkout(2, now=LATE)]),
    of("renew twice and commit", LEASED, [renew(1, now=EARLY)], [renew(1, now=EARLY)], [commit(1, 50, now=LATE)]),
    of("renew and release", LEASED, [renew(1)], [release(1)], [checkout(2)]),
    of("release and an empty answer", LEASED, [release(1)], [checkout(2)]),
    of(
        "release, the delete of all that was free, and an empty answer",
        [append([1, 2]), checkout(1, most=1)],
        [release(1), delete(2)],
        [checkout(2)],
    ),
    of("commit, its replay and a checkout", LEASED, [commit(1, 50)], [commit(1, 60)], [checkout(2)]),
    of("commit, its replay and the reopen", LEASED, [commit(1, 50)], [commit(1, 60)], [reopen(1)]),
    of("release and commit", LEASED, [release(1), checkout(2)], [commit(1, 50)]),
    of("reopen and a checkout of its reflections", COMMITTED, [reopen(1)], [checkout(2, tier=2)]),
    of("reopen and the commit of its reflections", REFLECTIONS_LEASED, [reopen(1)], [commit(2, 90)]),
    of(
        "reopen and an expired lease of its reflections",
        REFLECTIONS_LEASED,
        [reopen(1, now=LATE)],
        [commit(2, 90, now=EARLY)],
    ),
    of("two reopens and a checkout", COMMITTED, [reopen(1)], [reopen(1)], [checkout(2)]),
    of("reopen and delete", COMMITTED, [reopen(1)], [delete(1, 50)]),
    of("reopen and a late commit", COMMITTED, [reopen(1), checkout(2)], [commit(1, 60)]),
    of("ingest, delete and a reader of the counters", [SOME], [append([4, 5])], [delete(1)], [DEBT, TOTALS]),
    of("one request twice at once", [], [append([1, 2], "k")], [append([3, 4], "k")]),
    of("one key with two bodies at once", [], [append([1], "k")], [append([2], "k", body="other")]),
    of(
        "an expired idempotency record used again",
        [append([1], "k")],
        [append([2], "k", now=LATE, until=LATE + 5)],
        [append([3], "k", now=LATE, until=LATE + 5)],
        [append([4], "k", now=EARLY)],
    ),
    of(
        "a request, the drop of the vault and its retry",
        [SOME],
        [append([4], "k"), append_next([5], "k")],
        [BUMP, PURGE],
    ),
    of("a writer on the old epoch and the purge", [SOME], [append([4]), append([5])], [BUMP, PURGE, PURGE]),
    of("a commit on the old epoch and the purge", LEASED, [commit(1, 50)], [BUMP, PURGE]),
    of("a reader of the old epoch and the purge", LEASED, [TOTALS], [BUMP, PURGE]),
    of("a writer and the seal", [], [append([1]), append([2])], [SEAL]),
    of("the seal of a vault that a delete empties", [append([1])], [delete(1), append([2])], [SEAL]),
    of(
        "several expired batches",
        [append([1, 2, 3, 4]), *[checkout(n, most=1) for n in (1, 2, 3, 4)]],
        [checkout(5, now=LATE)],
        [commit(2, 50, now=EARLY)],
        [renew(3, now=EARLY)],
    ),
]
