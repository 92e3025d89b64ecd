"""A whole server without its edge: the embedded store and directory in a folder, everything else in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from shared.adapters.sqlite.directory import SqliteDirectory
from shared.adapters.sqlite.files import VaultFiles
from shared.adapters.sqlite.outbox import Outbox
from shared.adapters.sqlite.store import SqliteStore
from shared.adapters.system.letters import MemoryLetters
from shared.adapters.system.telemetry import Silent
from shared.usecases import consolidate, ingest, keys
from shared.usecases.services import Caller, Policy, Services
from tests.unit.usecases.fakes import CountingIds, Meter, SmallModel, SteppingClock, WordIndex


class World:
    """`services` and the fakes behind them. Calls are made as the endpoint makes them: with the caller read afresh."""

    def __init__(self, folder: Path) -> None:
        self.directory = SqliteDirectory(folder)
        self.files = VaultFiles(folder, self.directory)
        self.feed = Outbox(self.files)
        self.store = SqliteStore(self.files, self.feed, self.directory.purged)
        self.clock, self.ids, self.meter = SteppingClock(), CountingIds(), Meter()
        self.letters = MemoryLetters()
        self.index = WordIndex(self.store)
        self.models = {"small": SmallModel("small"), "large": SmallModel("large")}
        self.services = Services(
            store=self.store,
            directory=self.directory,
            index=self.index,
            embedders=self.models,
            feed=self.feed,
            usage=self.meter,
            dead_letters=self.letters,
            telemetry=Silent(),
            clock=self.clock,
            ids=self.ids,
            policy=Policy(default_model="small", auto_provision_keys=True),
        )

    def caller(self, key: str = "mk_one", session: str | None = None, model: str | None = None) -> Caller:
        return replace(keys.authenticate(self.services, key), session_id=session, model=model)

    def tell(
        self, *texts: str, key: str = "mk_one", session: str | None = None, date_ms: int | None = None
    ) -> list[str]:
        """Store messages; returns their ids."""
        messages = [ingest.NewMessage("user", text, date_ms) for text in texts]
        answer: Any = ingest.ingest(self.services, self.caller(key, session), messages, None)
        return list(answer["ids"])

    def consolidate(self, *entries: tuple[str, int], key: str = "mk_one", tier: int = 1) -> tuple[str, list[str]]:
        """Check everything out and commit `entries`; returns the batch and the ids of its reflections."""
        batch: Any = consolidate.checkout(self.services, self.caller(key), tier, None)
        done: Any = consolidate.commit(self.services, self.caller(key), batch["batch_id"], entries)
        return batch["batch_id"], [created["id"] for created in done["created"]]

    def close(self) -> None:
        self.files.close()
        self.directory.database.close()
