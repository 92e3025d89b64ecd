"""The embedded back end under the scheduler: real files, copied from a template for every schedule."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from tests.contract.sqlite_rig import SqliteRig
from tests.simulation.scheduler import Lock, Scheduler
from tests.simulation.world import VAULT, Call, Site


class SqliteSite(SqliteRig):
    """The vault is the first one of its folder."""

    vault = VAULT

    def bump(self) -> object:
        return self.directory.next_epoch(self.vault.vault_id, unbind=False)

    def finish_purges(self) -> None:
        for vault_id, below in self.directory.waiting_purges():
            self.store.purge(vault_id, below)


class SqliteStage:
    """One folder holds the template, another the files of the schedule at hand."""

    def __init__(self, folder: Path) -> None:
        self._template = folder / "template"
        self._folder = folder / "run"

    def prepare(self, before: Sequence[Call]) -> None:
        self._template.mkdir(parents=True)
        site = SqliteSite(self._template, connect=Scheduler().connect)
        site.new_vault()
        for call in before:
            call.answer(site)
        site.store.debt(site.vault)
        site.close()

    def begin(self, scheduler: Scheduler, drops: bool) -> Site:
        begin_anew(self._template, self._folder)
        site = SqliteSite(self._folder, connect=scheduler.connect, lock=nullcontext)
        site.store.debt(site.vault)
        # While no content comes or goes, the table of open files is only read: its lock orders nothing.
        site.files._lock = Lock(scheduler, "files") if drops else nullcontext()  # type: ignore[assignment]
        return site

    def rest(self, batch_ids: Sequence[str]) -> Site:
        return SqliteSite(self._folder, connect=Scheduler().connect)

    def said(self, answer: tuple[str, object]) -> tuple[str, object]:
        return answer


def begin_anew(template: Path, folder: Path) -> None:
    """Make the folder what the template is; folders stay, since making and removing them takes longest."""
    for left in folder.glob("**/*"):
        if left.is_file():
            left.unlink()
    for original in template.glob("**/*"):
        copied = folder / original.relative_to(template)
        if original.is_file():
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(original.read_bytes())
