"""The AWS back end on this machine: ``python -m infra.local.aws_emulation``, or `make serve-aws`.

DynamoDB is ministack, OpenSearch a real node; both are started here, begin empty and are gone at the end. The same
gateway as the local server's answers, and the table's stream is followed by the same indexer. ``STRATA_AWS_ENDPOINT``
and ``STRATA_SEARCH_URL`` name an emulator and a node that run already; those are used and left running.
"""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from types import FrameType

from infra.local import emulator, opensearch_home, opensearch_node
from infra.local.server import CANNOT_START, run, serve
from shared import bootstrap
from shared.settings import AWS, Settings

TABLE = "strata"
DEAD_LETTERS = "strata-dead-letters"


class CannotStart(RuntimeError):
    """Something that the emulation needs is missing."""


def _check(settings: Settings) -> None:
    missing = [] if settings.search_url else opensearch_home.missing_tools()
    if missing:
        raise CannotStart(
            f"{' and '.join(missing)} not found: {opensearch_home.INSTALL}, or let STRATA_SEARCH_URL name a node"
        )


def _search(settings: Settings, stack: ExitStack) -> str:
    if settings.search_url is not None:
        return settings.search_url
    print("starting OpenSearch (the first time it is fetched by Maven) ...", flush=True)
    return stack.enter_context(opensearch_node.running())


def _start(settings: Settings) -> None:
    _check(settings)
    with ExitStack() as stack:
        endpoint = settings.aws_endpoint or stack.enter_context(emulator.running()).url
        search_url = _search(settings, stack)
        settings = replace(
            settings, backend=AWS, table=settings.table or TABLE, search_url=search_url, aws_endpoint=endpoint
        )
        if settings.dead_letters is None:
            settings = replace(settings, dead_letters=bootstrap.Aws.emulated_queue(settings, DEAD_LETTERS))
        backend = stack.enter_context(bootstrap.Aws(settings, follow=True))
        backend.provision()
        about = f"table: {settings.table} at {endpoint}, search: {search_url}; in memory, gone at the end"
        print(
            "look at them:\n"
            f"  AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x aws --endpoint-url {endpoint} --region us-east-1"
            f" dynamodb scan --table-name {settings.table}\n"
            f"  curl '{search_url}/_cat/indices?v' ; curl '{search_url}/strata-*/_search?pretty'",
            flush=True,
        )
        serve(backend, settings, about, backend.others)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    # Until the server listens for it itself, SIGTERM takes down what was started so far; a closed terminal always does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        return run(_start)
    except KeyboardInterrupt:
        return 0
    except (CannotStart, emulator.EmulatorFailed, opensearch_home.CannotBuild, opensearch_node.NodeFailed) as error:
        print(f"strata cannot start: {error}", file=sys.stderr)
        return CANNOT_START


if __name__ == "__main__":
    sys.exit(main())
