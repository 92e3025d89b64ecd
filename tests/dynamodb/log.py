"""What requests cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass
class Request:
    """One request that reached the table.

    `items` is how many items it named or walked; `written_items` how many changed. Write units are the table's own
    (`write_units`) and the local indexes' by name (`index_units`); a transaction doubles the table's units only, since
    indexes follow after its commit. `error` is the code of a refusal; a failed condition costs write units as well.
    """

    op: str
    items: int = 0
    written_items: int = 0
    read_units: float = 0.0
    write_units: int = 0
    index_units: dict[str, int] = field(default_factory=dict)
    error: str = ""

    def add_index_units(self, units: Mapping[str, int]) -> None:
        for name, count in units.items():
            self.index_units[name] = self.index_units.get(name, 0) + count

    @property
    def all_write_units(self) -> int:
        return self.write_units + sum(self.index_units.values())


def total(requests: Iterable[Request]) -> Request:
    """One line for all of them."""
    answer = Request("total")
    for request in requests:
        answer.items += request.items
        answer.written_items += request.written_items
        answer.read_units += request.read_units
        answer.write_units += request.write_units
        answer.add_index_units(request.index_units)
    return answer
