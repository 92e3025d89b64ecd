"""Which rows are each other's context, found with few reads, against the whole session laid out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.opensearch.chains import REACH, chains
from shared.domain.memory import Memory, VaultRef
from tests.contract.opensearch_rig import MemoryRows
from tests.contract.rows import NOW, Maker

VAULT = VaultRef("v", 1)


class CountedRows(MemoryRows):
    asked = 0

    def beside(self, vault: VaultRef, session_id: str, at: tuple[int, str], reach: int) -> tuple[Memory, ...]:
        self.asked += 1
        return super().beside(vault, session_id, at, reach)


@given(
    dates=st.lists(st.integers(0, 30), min_size=1, max_size=60),
    changed=st.sets(st.integers(0, 59), min_size=1, max_size=12),
)
def test_every_changed_row_has_its_surroundings_in_one_stretch(dates: list[int], changed: set[int]) -> None:
    make = Maker()
    rows = [make.raw(f"row {n}", NOW + date, "s") for n, date in enumerate(dates)]
    source = CountedRows()
    source.write(VAULT, rows)
    chosen = [rows[n] for n in sorted(changed) if n < len(rows)]
    order = [row.id for row in sorted(rows, key=lambda row: (row.date_ms, row.id))]
    found = [[piece.memory.id for piece in chain] for chain in chains(source, VAULT, chosen)]
    for stretch in found:
        start = order.index(stretch[0])
        assert stretch == order[start : start + len(stretch)]
    for row in chosen:
        at = order.index(row.id)
        around = order[max(0, at - REACH) : at + REACH + 1]
        assert sum(set(around) <= set(stretch) for stretch in found) == 1
    assert len({name for stretch in found for name in stretch}) == sum(map(len, found))


def test_a_run_of_new_rows_is_read_in_one_go() -> None:
    make = Maker()
    rows = [make.raw(f"row {n}", NOW + n, "s") for n in range(80)]
    source = CountedRows()
    source.write(VAULT, rows)
    (chain,) = chains(source, VAULT, rows[20:60])
    assert source.asked == 1
    assert {row.id for row in rows[20 - REACH : 60 + REACH]} <= {piece.memory.id for piece in chain}


def test_rows_without_a_session_stand_alone() -> None:
    make = Maker()
    long = make.raw("Nothing of note happened on that grey and quiet day. " * 20)
    rows = [make.raw("one"), make.raw("two"), long]
    source = CountedRows()
    source.write(VAULT, rows)
    found = chains(source, VAULT, rows)
    assert [len({piece.memory.id for piece in chain}) for chain in found] == [1, 1, 1]
    assert [piece.number for piece in found[2]] == list(range(len(found[2])))
    assert len(found[2]) > 2
    assert source.asked == 0
