"""A process that gives a file's free pages back is killed in the middle again and again: nothing is lost."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from shared.bootstrap.embedded import Embedded
from shared.domain.memory import VaultRef
from shared.settings import Settings
from tests.contract.rows import NOW, Maker
from tests.contract.vaults import Vaults
from tests.e2e.server import ROOT

KILLS = 8
KEPT = 50


def begun(folder: Path) -> tuple[VaultRef, set[str], int]:
    """A vault that lost most of its rows: what it is, whose rows are left, and how large its file is."""
    with Embedded(Settings(data=folder, embedder="hashed-64")) as backend:
        rig, make = Vaults(), Maker()
        rig.directory, rig.store, rig._numbers = backend.directory, backend.services.store, iter([1])
        vault = rig.new_vault()
        rows = [make.raw("the harbour was quiet then " * 100) for _ in range(3_000)]
        rig.store.append(vault, rows, None, NOW)
        for start in range(KEPT, len(rows), 500):
            rig.store.delete(vault, [row.id for row in rows[start : start + 500]], NOW)
    size = folder / "vaults" / f"{vault.vault_id}.{vault.epoch}.sqlite3"
    return vault, {row.id for row in rows[:KEPT]}, size.stat().st_size


def test_killed_in_the_middle_of_shrinking(tmp_path: Path) -> None:
    folder, drawn = tmp_path / "data", random.Random(3)
    vault, expected, size = begun(folder)
    steps, ended = [], False
    for turn in range(200):
        arguments = [str(folder), vault.vault_id, str(1_000_000 * (turn + 1))]
        with subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.shrinking", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            lines, limit = 0, drawn.randint(1, 25)
            for line in child.stdout:
                expected.add(line.strip())
                lines += 1
                if lines == limit and turn < KILLS:
                    child.kill()
            ended = child.wait(60) == 0
        steps.append(lines)
        if ended:
            break
    assert ended
    assert len(steps) > KILLS
    with Embedded(Settings(data=folder, embedder="hashed-64")) as backend:
        there = {row.id for row in backend.services.store.export(vault, None, 10_000)}
        # A row that was written and not told of before the end may be there as well: one for each kill at most.
        assert expected <= there
        assert len(there - expected) <= KILLS
        with backend._files.database(vault).read() as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            free, pages = (
                connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count")
            )
        assert free <= max(64, pages // 8)
        assert backend._files.path(vault).stat().st_size < size / 5
