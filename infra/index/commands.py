"""What each command of ``python -m infra.index`` does and prints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from shared.domain.errors import NotFound, StaleEpoch, Unavailable
from shared.domain.memory import VaultRef
from shared.ports.search import RepairableIndex
from shared.usecases import repair
from shared.usecases.services import Services

if TYPE_CHECKING:
    from shared.bootstrap import Aws

DONE, NOT_ALL_RIGHT, CANNOT_START = 0, 1, 2
SAID_EVERY_S = 5.0
LOOKS_EVERY_S = 1.0
REFUSED = "the search store refuses them for an hour after somebody removed them by hand; `rebuild` needs not wait"


class Repairing(Protocol):
    """A back end whose index can be cared for."""

    services: Services

    @property
    def repairable(self) -> RepairableIndex: ...

    def stored(self) -> list[VaultRef]: ...


@dataclass
class Run:
    """One call of a command. `aws` is the same back end, where it is that one."""

    backend: Repairing
    vault_id: str | None = None
    aws: Aws | None = None
    replicas: int = 0
    newer: bool = False
    follow: bool = False
    left_out: set[VaultRef] = field(default_factory=set)
    _said: float = field(default_factory=time.monotonic)

    def vaults(self) -> Iterator[VaultRef]:
        """The contents that were asked for. Raises `NotFound` for a vault that was never made.

        One whose model is not offered here is named and left out: its index stays as it is.
        """
        for vault in self._asked():
            try:
                if self.aws is not None:
                    self.aws.model(vault)
            except Unavailable as refusal:
                self.left_out.add(vault)
                print(f"{_name(vault)}: left out. {refusal.message} {refusal.hint}")
            else:
                yield vault

    def _asked(self) -> Iterator[VaultRef]:
        if self.vault_id is None:
            yield from self.backend.stored()
            return
        record = self.backend.services.directory.vault(self.vault_id)
        yield record.ref
        if record.importing is not None:
            yield VaultRef(record.vault_id, record.importing)

    def progress(self, what: str, count: int) -> None:
        """Say now and then how far it is."""
        if time.monotonic() - self._said >= SAID_EVERY_S:
            self._said = time.monotonic()
            print(f"  {what}: {count:,}", flush=True)


def create(run: Run) -> int:
    if run.aws is None:
        print("the embedded back end makes its index itself; there is nothing to create")
        return DONE
    from shared.bootstrap.provisioning import prepare_indexes

    for name in prepare_indexes(run.aws, run.replicas):
        print(f"ready: {name}")
    return DONE


def rebuild(run: Run) -> int:
    if run.aws is not None and run.vault_id is None:
        return _beside(run, run.aws)
    return _fill(run, run.backend.services)


def _fill(run: Run, services: Services) -> int:
    for vault in run.vaults():
        try:
            done = repair.rebuild(services, vault, run.progress)
        except (StaleEpoch, NotFound):
            print(f"{_name(vault)}: dropped meanwhile")
            continue
        print(f"{_name(vault)}: {done.rows:,} rows, {done.vectors:,} vectors made")
    return NOT_ALL_RIGHT if run.left_out else DONE


def _beside(run: Run, aws: Aws) -> int:
    from shared.bootstrap.provisioning import other_layouts
    from shared.bootstrap.rebuilding import Beside

    beside = Beside(aws, run.replicas)
    try:
        try:
            _fill(run, beside.services)
        except Unavailable:
            if not beside.overtaken():
                raise
            print("another rebuild was quicker")
        for name in beside.take_over():
            print(f"in use now: {name}")
        print("looking for what changed meanwhile")
        code = reconcile(run)
        for name in beside.drop_replaced():
            print(f"dropped: {name}")
        if others := other_layouts(aws):
            print(
                f"left for releases of another layout: {', '.join(others)}. What they write from now on is not in the"
                " indexes of this one: run `catch-up --follow` until it is deployed, and at last `drop-old`"
            )
        return code
    finally:
        beside.close()


def drop_old(run: Run) -> int:
    if run.aws is None:
        print("the embedded back end has no index of another layout; there is nothing to drop")
        return DONE
    from shared.bootstrap.provisioning import drop_other_layouts, other_layouts

    for name in drop_other_layouts(run.aws, run.newer):
        print(f"dropped: {name}")
    for name in other_layouts(run.aws):
        print(f"left: {name}")
    return DONE


def reconcile(run: Run) -> int:
    left = 0
    for vault in run.vaults():
        try:
            found = repair.reconcile(run.backend.services, run.backend.repairable, vault, run.progress)
        except (StaleEpoch, NotFound):
            print(f"{_name(vault)}: dropped meanwhile")
            continue
        left += found.without_vector + found.left
        print(
            f"{_name(vault)}: {found.rows:,} rows, {found.missing:,} were missing, {found.ghosts:,} were gone from the"
            f" store, {found.stale:,} were out of date, {found.vectors:,} vectors were missing"
            + ("" if found.clean else "; repaired")
            + (f", but for {found.left:,} rows: {REFUSED}" if found.left else "")
            + (f"; {found.without_vector:,} passages still wait for a vector" if found.without_vector else "")
        )
    if run.aws is not None and run.vault_id is None:
        strays = run.aws.drop_strays()
        print(f"contents that no vault has any more: {strays:,}" + ("; removed" if strays else ""))
    return NOT_ALL_RIGHT if left or run.left_out else DONE


def catch_up(run: Run) -> int:
    if run.aws is None:
        print("the embedded back end keeps its index in step; there is nothing to catch up with")
        return DONE
    changes = run.aws.kept_changes()
    failed = 0
    try:
        while True:
            caught = repair.catch_up(run.backend.services, changes, run.progress)
            failed += caught.failed
            if caught.done or caught.failed or not run.follow:
                print(f"{caught.done:,} changes brought in, {caught.failed:,} failed", flush=True)
            if not run.follow:
                break
            time.sleep(LOOKS_EVERY_S)
    except KeyboardInterrupt:
        print("stopped")
    return NOT_ALL_RIGHT if failed else DONE


def redrive(run: Run) -> int:
    done = repair.redrive(run.backend.services, run.progress)
    print(f"{done.done:,} worked off, {done.failed:,} failed again, {done.foreign:,} messages of somebody else")
    return NOT_ALL_RIGHT if done.failed or done.foreign else DONE


def _name(vault: VaultRef) -> str:
    return f"vault {vault.vault_id} (epoch {vault.epoch})"


COMMANDS: dict[str, Callable[[Run], int]] = {
    "catch-up": catch_up,
    "create": create,
    "drop-old": drop_old,
    "rebuild": rebuild,
    "reconcile": reconcile,
    "redrive": redrive,
}
