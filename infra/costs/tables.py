"""Numbers and tables as the page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from infra.costs.bill import Lines, total


def dollars(usd: float) -> str:
    return f"{usd:,.2f}" if abs(usd) < 1000 else f"{usd:,.0f}"


def plain(number: float) -> str:
    """All of its digits, and no exponent."""
    return f"{number:,.10f}".rstrip("0").rstrip(".")


def rounded(number: float) -> str:
    """To two digits."""
    return f"{float(f'{number:.2g}'):,.0f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = True) -> str:
    """`numbers` aligns all columns but the first to the right."""
    side = "---:|" if numbers else "---|"
    lines = [f"| {' | '.join(head)} |", f"|---|{side * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def lines_table(columns: Mapping[str, Lines]) -> str:
    """One row for every line of any column, and their sum."""
    names = dict.fromkeys(name for lines in columns.values() for name in lines)
    rows = [[name, *(dollars(lines.get(name, 0.0)) for lines in columns.values())] for name in names]
    rows.append(["**sum**", *(f"**{dollars(total(lines))}**" for lines in columns.values())])
    return table(["", *columns], rows)
