"""``python -m infra.costs``: write the page, check it, or print the bill of one's own month."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.costs import bill, page, prices
from infra.costs.bill import Usage, WrongUsage
from infra.costs.prices import WrongPrices
from infra.costs.tables import lines_table


def main(arguments: Sequence[str] | None = None, target: Path = page.PAGE) -> int:
    """0 when all is well, 1 when the page is stale, 2 for what cannot be used."""
    options = argparse.ArgumentParser(prog="python -m infra.costs", description=__doc__)
    options.add_argument("--check", action="store_true", help="say whether the page is stale, and write nothing")
    options.add_argument("--prices", type=Path, help="a price list of your own: a copy of prices.toml, changed")
    options.add_argument("--env", default="prod", choices=page.ENVIRONMENTS, help="whose domain (default: prod)")
    options.add_argument("--memories", type=float, help="memories held: prints this month instead of the page")
    options.add_argument("--retrievals", type=float, help="retrievals a month (default: 0.3 a memory)")
    options.add_argument("--messages", type=float, help="messages ingested a month (default: 0.1 a memory)")
    options.add_argument("--consolidations", type=float, help="consolidations a month (default: 0.001 a memory)")
    options.add_argument("--vault", type=float, default=page.VAULT, help="memories of one vault (default: 1,000)")
    options.add_argument("--ingest", type=int, default=25, choices=(1, 25), help="messages a request (default: 25)")
    chosen = options.parse_args(arguments)
    own = any(
        value is not None for value in (chosen.memories, chosen.retrievals, chosen.messages, chosen.consolidations)
    )
    try:
        listed = prices.read(chosen.prices) if chosen.prices else prices.read()
        if own:
            print(_month(chosen, listed))
            return 0
        return _page(chosen, page.text(listed), target)
    except (WrongPrices, WrongUsage) as error:
        print(error, file=sys.stderr)
        return 2


def _month(chosen: argparse.Namespace, listed: prices.Prices) -> str:
    memories = 0.0 if chosen.memories is None else chosen.memories
    typical = Usage.typical(memories)
    usage = Usage(
        memories,
        typical.retrievals if chosen.retrievals is None else chosen.retrievals,
        typical.messages if chosen.messages is None else chosen.messages,
        typical.consolidations if chosen.consolidations is None else chosen.consolidations,
        chosen.vault,
        chosen.ingest,
    )
    on = page.deployment(chosen.env, listed)
    return lines_table({f"{chosen.env}, dollars a month": bill.month(on, usage)})


def _page(chosen: argparse.Namespace, text: str, target: Path) -> int:
    if chosen.prices:
        print(text, end="")
        return 0
    if not chosen.check:
        target.write_text(text, "utf-8")
        return 0
    if target.exists() and target.read_text("utf-8") == text:
        return 0
    print(f"{target.name} is stale: run `python -m infra.costs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
