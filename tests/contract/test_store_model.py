"""Any sequence of calls: every adapter answers each of them as the reference model does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from shared.domain.batch import Batch, State
from shared.domain.errors import StrataError
from shared.domain.memory import VaultRef
from shared.domain.selection import Budget
from shared.ports.store import CheckedOut, Idempotency, Lease, MemoryStore, TimelineQuery
from tests.contract.conftest import SERVED, ModelRig, OpenRig, Rig, named
from tests.contract.model import recount
from tests.contract.rows import NOW, Maker, everything

TIERS = st.sets(st.sampled_from((1, 2, 3)), min_size=1).map(frozenset)
BUDGETS = st.builds(
    Budget,
    max_tokens=st.none() | st.integers(1, 60),
    target_importance=st.none() | st.integers(1, 20),
    soft_tokens=st.none() | st.integers(1, 60),
    max_rows=st.integers(1, 6),
)
LEASE = 40
Verb = Callable[[MemoryStore, VaultRef], object]


def lasting(batch: Batch) -> Batch:
    """A header without what may differ: the gap of a batch that never committed."""
    return batch if batch.state in (State.COMMITTED, State.SETTLED) else replace(batch, sources_deleted=0)


class Machine(RuleBasedStateMachine):
    """Makes each call on the adapter and on the model, by clocks that run ahead and behind."""

    open_rig: Callable[[Path], Rig]

    memories: Bundle[str] = Bundle("memories")
    batches: Bundle[str] = Bundle("batches")

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.rig, self.model = type(self).open_rig(self.folder), ModelRig(self.folder)
        self.vault, self.modelled = self.rig.new_vault(), self.model.new_vault()
        self.make, self.now, self.names = Maker(), NOW, list[str]()

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            self.rig.close()
            shutil.rmtree(self.folder)

    def same(self, verb: Verb) -> object:
        outcomes = []
        for store, vault in ((self.rig.store, self.vault), (self.model.store, self.modelled)):
            try:
                outcomes.append(verb(store, vault))
            except StrataError as error:
                outcomes.append(error.code)
        assert outcomes[0] == outcomes[1]
        return outcomes[0]

    @rule(
        target=memories,
        dates=st.lists(st.integers(-3, 3), max_size=4),
        session=st.sampled_from((None, "a", "b")),
        key=st.none() | st.sampled_from("kl"),
        body=st.sampled_from("xy"),
        life=st.integers(1, 60),
    )
    def append(
        self, dates: list[int], session: str | None, key: str | None, body: str, life: int
    ) -> MultipleResults[str]:
        rows = [self.make.raw(date_ms=NOW + date, session=session) for date in dates]
        once = None if key is None else Idempotency(key, body, self.now + life)
        self.same(lambda store, vault: store.append(vault, rows, once, self.now))
        return multiple(*(row.id for row in rows))

    @rule(by=st.integers(-10, 30))
    def wait(self, by: int) -> None:
        self.now += by

    @rule(target=batches, tier=st.sampled_from((1, 1, 2)), budget=BUDGETS)
    def checkout(self, tier: int, budget: Budget) -> MultipleResults[str]:
        lease = Lease(self.make.batch_id(), self.now, LEASE)
        found = self.same(lambda store, vault: store.checkout(vault, tier, budget, lease))
        self.names.append(lease.batch_id)
        return multiple(lease.batch_id) if isinstance(found, CheckedOut) else multiple()

    @rule(target=memories, batch=batches, importances=st.lists(st.integers(1, 10), min_size=1, max_size=3))
    def commit(self, batch: str, importances: list[int]) -> MultipleResults[str]:
        entries = self.make.entries(*importances)
        self.same(lambda store, vault: store.commit(vault, batch, entries, self.now))
        return multiple(*(entry.id for entry in entries))

    @rule(batch=batches)
    def release(self, batch: str) -> None:
        self.same(lambda store, vault: store.release(vault, batch, self.now))

    @rule(batch=batches)
    def renew(self, batch: str) -> None:
        self.same(lambda store, vault: store.renew(vault, batch, self.now))

    @rule(batch=batches)
    def reopen(self, batch: str) -> None:
        self.same(lambda store, vault: store.reopen(vault, batch, self.now))

    @rule(ids=st.lists(memories, max_size=3, unique=True))
    def delete(self, ids: list[str]) -> None:
        self.same(lambda store, vault: store.delete(vault, ids, self.now))

    @rule(
        from_ms=st.integers(-4, 4),
        length=st.integers(0, 8),
        tiers=TIERS,
        newest_first=st.booleans(),
        limit=st.integers(1, 5),
        least=st.none() | st.integers(1, 10),
        after=st.none() | memories,
    )
    def read(
        self,
        from_ms: int,
        length: int,
        tiers: frozenset[int],
        newest_first: bool,
        limit: int,
        least: int | None,
        after: str | None,
    ) -> None:
        start = NOW + from_ms
        query = TimelineQuery(
            start, start + length, tiers, newest_first, limit, least, None if after is None else (start, after)
        )
        self.same(lambda store, vault: store.timeline(vault, query))
        self.same(lambda store, vault: store.spanning(vault, query))
        self.same(lambda store, vault: store.session_ids(vault, "a", limit))

    @rule(batch=batches, offset=st.integers(0, 6))
    def sources(self, batch: str, offset: int) -> None:
        self.same(lambda store, vault: store.sources(vault, batch, offset, 100).memories)

    @rule()
    def restart(self) -> None:
        self.rig.restart()

    @rule()
    def drop(self) -> None:
        self.vault, self.modelled = self.rig.dropped(self.vault), self.model.dropped(self.modelled)

    @invariant()
    def all_is_equal(self) -> None:
        if not hasattr(self, "rig"):
            return
        self.same(everything)
        self.same(lambda store, vault: store.totals(vault))
        self.same(lambda store, vault: store.written_by(vault, self.names))
        self.same(
            lambda store, vault: {i: lasting(b) for i, b in store.batches(vault, self.names).items()},
        )
        assert self.rig.store.debt(self.vault) == recount(everything(self.rig.store, self.vault))


def run(open_rig: Callable[[Path], Rig], examples: int, steps: int) -> None:
    machine = type("OpenedMachine", (Machine,), {"open_rig": staticmethod(open_rig)})
    run_state_machine_as_test(
        machine, settings=settings(settings(), max_examples=examples, stateful_step_count=steps, deadline=None)
    )


@pytest.mark.parametrize("name", named("model"))
def test_every_answer_is_the_models(name: str, open_rig: OpenRig) -> None:
    run(partial(open_rig, name), examples=5 if name == SERVED else 20, steps=30)


@pytest.mark.slow
@pytest.mark.parametrize("name", named("model", SERVED))
def test_every_answer_is_the_models_in_long_lives_too(name: str, open_rig: OpenRig) -> None:
    run(partial(open_rig, name), examples=60, steps=60)
