"""Care for the search index: ``python -m infra.index COMMAND [--vault ID | --all]``.

create     make the indexes that the AWS back end needs and that are missing; refuses where an empty one would hide rows
rebuild    fill new indexes from the store, beside those in use, and let them take over; with --vault, and on the
           embedded back end, fill the index in place. With a new layout, run it before the release is deployed
catch-up   bring in what changed in the last day, from the table's stream: after a rebuild for a new layout, what the
           release before writes until the new one is deployed; with --follow until it is interrupted
reconcile  compare store and index, repair what differs and say what it was; reads everything
drop-old   remove the indexes of older layouts, which ends the way back to the release before; with --newer those of
           newer ones, after an upgrade that was given up
redrive    try again what the change stream gave up, and empty the queue of what succeeds

With ``--env`` it is the deployed environment of that name in ``cdk.json``, with the AWS credentials at hand. Without,
the back end is chosen by ``STRATA_…`` variables, as for the server; the embedded one must not be running.
Ends with 0 when all is right, with 1 when something stays wrong, with 2 when it could not begin.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace

from botocore.exceptions import BotoCoreError, ClientError

from infra.env import WrongEnvironment
from infra.index.commands import COMMANDS, Run
from infra.outputs import NotDeployed, environment, settings_of
from shared import bootstrap
from shared.domain.errors import StrataError
from shared.settings import AWS, SettingsError

CANNOT_START = 2


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m infra.index", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=sorted(COMMANDS))
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--vault", help="only the vault of this id")
    which.add_argument("--all", action="store_true", help="every vault, which is the default")
    parser.add_argument("--env", help="an environment of cdk.json that is deployed")
    parser.add_argument("--table", help="another table than the one of STRATA_TABLE")
    parser.add_argument("--follow", action="store_true", help="with catch-up: go on until interrupted")
    parser.add_argument("--newer", action="store_true", help="with drop-old: newer layouts instead of older ones")
    parser.add_argument(
        "--replicas",
        type=int,
        choices=range(4),
        help="copies of each new index on other nodes; by default as many as the environment's nodes allow, else 0",
    )
    asked = parser.parse_args(arguments)
    try:
        settings = settings_of(asked.env)
        replicas = asked.replicas or 0
        if asked.env is not None and asked.replicas is None:
            replicas = environment(asked.env).search.replicas
        if asked.table:
            settings = replace(settings, table=asked.table)
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
        if settings.backend == AWS:
            with bootstrap.Aws(settings) as aws:
                return COMMANDS[asked.command](Run(aws, asked.vault, aws, replicas, asked.newer, asked.follow))
        with bootstrap.Embedded(settings) as embedded:
            return COMMANDS[asked.command](Run(embedded, asked.vault))
    except (SettingsError, WrongEnvironment, NotDeployed) as error:
        print(f"cannot start: {error}", file=sys.stderr)
    except (BotoCoreError, ClientError) as error:
        print(f"stopped: AWS could not be asked: {error}", file=sys.stderr)
    except StrataError as error:
        print(f"stopped: {error.message} {error.hint or ''}".rstrip(), file=sys.stderr)
    return CANNOT_START


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
