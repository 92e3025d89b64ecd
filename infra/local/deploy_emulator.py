"""The whole deployment on this machine: `make deploy-emulator`, or ``python -m infra.local.deploy_emulator``.

Both stacks are synthesised and deployed by CDK into an emulated account, functions, routes, table, stream and alarms
included. It prints the address of the API and a first key, and goes with everything in it when it is stopped.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

from infra import toolkit
from infra.bundling import BundleError
from infra.local import account, emulator, opensearch_home, opensearch_node
from infra.outputs import environment
from shared import bootstrap
from shared.usecases.keys import first_admin_key

CANNOT_START, INTERRUPTED = 2, 130


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.local.deploy_emulator", description=__doc__)
    parser.add_argument(
        "--port", type=int, default=4566, help="the emulator's port; 0 takes free ones for it and for the model"
    )
    port = parser.parse_args(arguments).port
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    missing = opensearch_home.missing_tools()
    if missing:
        print(f"{' and '.join(missing)} not found: {opensearch_home.INSTALL}", file=sys.stderr)
        return CANNOT_START
    try:
        toolkit.command([])
        _serve(port)
    except KeyboardInterrupt:
        print("stopped before it was deployed", file=sys.stderr)
        return INTERRUPTED
    except (
        BundleError,
        account.DeploymentFailed,
        emulator.EmulatorFailed,
        opensearch_home.CannotBuild,
        opensearch_node.NodeFailed,
        toolkit.ToolkitMissing,
        _PortTaken,
    ) as error:
        print(f"strata cannot be deployed: {error}", file=sys.stderr)
        return CANNOT_START
    return 0


class _PortTaken(RuntimeError):
    pass


def _free(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise _PortTaken(f"port {port} cannot be used ({error.strerror}); with --port 0 free ports are taken") from None


def _serve(port: int) -> None:
    embeddings_port = 0
    endpoint = environment(account.NAME).endpoint
    if port and endpoint is not None:
        # Where cdk.json says that the model is, so that `--env emulator` of other commands finds it.
        embeddings_port = urlsplit(endpoint.url).port or 0
    for wanted in (port, embeddings_port):
        _free(wanted)
    _say("starting the emulator, OpenSearch (the first time it is fetched by Maven) and the embedding model")
    with (
        account.running(port=port, embeddings_port=embeddings_port) as deployed,
        tempfile.TemporaryDirectory(prefix="strata-cdk-") as folder,
    ):
        _say("making the stacks")
        app = deployed.synthesise(Path(folder))
        _say("bootstrapping the account")
        deployed.bootstrap(app)
        _say("deploying both stacks")
        deployed.deploy(app)
        with bootstrap.Aws(deployed.settings()) as aws:
            key = first_admin_key(aws.services, "first")
        _say(
            f"ready: {deployed.url}\n"
            f"  first key, with every scope: {key}\n"
            f"  account: AWS_ENDPOINT_URL={deployed.emulator.url} AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x"
            f" AWS_REGION={emulator.REGION}\n"
            f"  search:  {deployed.search_url}\n"
            "Ctrl-C ends it; what it holds is in memory"
        )
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)


def _say(what: str) -> None:
    print(what, flush=True)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
