"""Care for the search index: ``python -m infra.index create|rebuild|reconcile|redrive [--vault ID | --all]``.

create     make the indexes that the AWS back end needs and that are missing or of an older layout
rebuild    fill new indexes from the store, beside those in use, and let them take over; with --vault, and on the
           embedded back end, fill the index in place
reconcile  compare store and index, repair what differs and say what it was
redrive    try again what the change stream gave up, and empty the queue of what succeeds

The back end is chosen by ``STRATA_…`` variables, as for the server; the embedded one must not be running.
Ends with 0 when all is right, with 1 when something stays wrong, with 2 when it could not begin.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace

from infra.index.commands import COMMANDS, Run
from shared import bootstrap
from shared.domain.errors import StrataError
from shared.settings import AWS, SettingsError, load

CANNOT_START = 2


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m infra.index", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=sorted(COMMANDS))
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--vault", help="only the vault of this id")
    which.add_argument("--all", action="store_true", help="every vault, which is the default")
    parser.add_argument("--table", help="another table than the one of STRATA_TABLE")
    parser.add_argument(
        "--replicas",
        type=int,
        choices=range(4),
        default=0,
        help="copies of each new index on other nodes; 0 by default",
    )
    asked = parser.parse_args(arguments)
    try:
        settings = load()
        if asked.table:
            settings = replace(settings, table=asked.table)
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
        if settings.backend == AWS:
            with bootstrap.Aws(settings) as aws:
                return COMMANDS[asked.command](Run(aws, asked.vault, aws, asked.replicas))
        with bootstrap.Embedded(settings) as embedded:
            return COMMANDS[asked.command](Run(embedded, asked.vault))
    except SettingsError as error:
        print(f"cannot start: {error}", file=sys.stderr)
    except StrataError as error:
        print(f"stopped: {error.message} {error.hint or ''}".rstrip(), file=sys.stderr)
    return CANNOT_START


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
