"""The CDK command line, pinned in ``package.json`` beside this file and installed by `make` into ``.tools/cdk``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ROOT / ".tools" / "cdk" / "node_modules" / "aws-cdk" / "bin" / "cdk"
QUIET = {
    # Its news and its telemetry ask the internet.
    "CDK_DISABLE_VERSION_CHECK": "1",
    "CDK_DISABLE_CLI_TELEMETRY": "true",
    # jsii warns on every start of a Node.js that Node's makers no longer care for.
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
}

_ALONE = 'exec env -i PATH="$PATH" LANG="$LANG" "$@"'


class ToolkitMissing(RuntimeError):
    """The command line is not there. The message says what to do."""


def command(arguments: Sequence[str], app: Path | None = None) -> list[str]:
    """What to run. `app` is a synthesised folder to use instead of synthesising. Raises `ToolkitMissing`."""
    node = shutil.which("node")
    if node is None:
        raise ToolkitMissing("node is not found: install Node.js 20 or newer (nodejs.org, or your system's package)")
    if not COMMAND.exists():
        raise ToolkitMissing("the CDK command line is not installed: run `make install`")
    chosen = str(app) if app is not None else f"{sys.executable} -m infra.app"
    return [node, str(COMMAND), *arguments, "--app", chosen, "--no-notices"]


def run(
    arguments: Sequence[str],
    isolated: Mapping[str, str] | None = None,
    app: Path | None = None,
    output: Path | None = None,
    sources: Path = ROOT,
) -> int:
    """Run it in the repository's folder, or in that of other sources, and return its exit code.

    With `isolated` it sees these variables and where programs are, nothing else of this process's environment: neither
    credentials nor a region. `output` takes what it says instead of the terminal.
    """
    inherit = ["env"] if isolated is None else ["sh", "-c", _ALONE, "sh"]
    variables = [f"{name}={value}" for name, value in {**(isolated or {}), **QUIET}.items()]
    with ExitStack() as stack:
        said = None if output is None else stack.enter_context(output.open("ab"))
        return subprocess.run(
            [*inherit, *variables, *command(arguments, app)],
            cwd=sources,
            check=False,
            # It asks before it widens permissions or deletes, and whoever runs it answers.
            stdin=None if isolated is None and output is None else subprocess.DEVNULL,
            stdout=said,
            stderr=said and subprocess.STDOUT,
        ).returncode
