"""A real OpenSearch node on a loopback port, with a fresh data folder, for tests, benches and local use."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.local.opensearch_home import home

START_SECONDS = 240.0
HEAP_MB = 512
# Run by root the node takes this user's rights: it refuses to be root itself.
UNPRIVILEGED = "nobody"

_COMPILER: dict[bool, tuple[str, ...]] = {True: (), False: ("-XX:TieredStopAtLevel=1",)}
# Becomes the node, and leaves a watcher that kills it when this process is gone, however it went.
_UNTIL_WE_END = 'exec 3<&0; { cat <&3 >/dev/null; kill -9 $$; } & exec "$@" </dev/null 3<&-'

_LOG4J = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%c{1.}] %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


class NodeFailed(RuntimeError):
    """The node did not start; the message ends with what it printed last."""


@contextmanager
def running(steady: bool = False) -> Iterator[str]:
    """The address of a node that answers requests, such as ``http://127.0.0.1:43211``; killed with its data at the end.

    A `steady` one gets fast by and by, for measurements; others spare themselves the compilation that this takes.
    Raises `CannotBuild` when Java or Maven are missing and `NodeFailed` when the node does not come up.
    """
    folder = Path(tempfile.mkdtemp(prefix="opensearch-node-"))
    try:
        process = _start(folder, steady)
        try:
            yield _address(process, folder)
        finally:
            # A graceful stop takes half a minute, and nothing here is kept.
            process.kill()
            process.communicate()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, steady: bool) -> subprocess.Popen[bytes]:
    user = pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None
    program = home()
    if user is not None and not _open_to_all(program):
        program = Path(shutil.copytree(program, folder / "home"))
    config = folder / "config"
    for name in ("config", "data", "logs"):
        (folder / name).mkdir()
    # Ports are chosen by the system, and the node writes down which.
    settings = {
        "cluster.name": "strata-local",
        "network.host": "127.0.0.1",
        "http.port": 0,
        "transport.port": 0,
        "discovery.type": "single-node",
        "node.portsfile": True,
        "path.data": str(folder / "data"),
        "path.logs": str(folder / "logs"),
        "action.auto_create_index": False,
        # As the deployed domain.
        "rest.action.multi.allow_explicit_index": False,
        "cluster.routing.allocation.disk.threshold_enabled": False,
    }
    lines = (f"{name}: {json.dumps(value)}\n" for name, value in settings.items())
    (config / "opensearch.yml").write_text("".join(lines), "utf-8")
    (config / "log4j2.properties").write_text(_LOG4J, "utf-8")
    if user is not None:
        for path in (folder, *folder.iterdir(), *config.iterdir()):
            os.chown(path, user.pw_uid, user.pw_gid)
    command = [
        "sh", "-c", _UNTIL_WE_END, "sh",
        "java", f"-Xms{HEAP_MB}m", f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", *_COMPILER[steady],
        "-Dlog4j2.disable.jmx=true",
        f"-Djava.io.tmpdir={folder}", f"-Dopensearch.path.home={program}", f"-Dopensearch.path.conf={config}",
        f"-Dlog4j.configurationFile={config / 'log4j2.properties'}", "-cp", f"{program}/lib/*",
        "org.opensearch.bootstrap.OpenSearch",
    ]  # fmt: skip
    with (folder / "output").open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A key pressed in the terminal stops the server first, then this.
            start_new_session=True,
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
        )


def _address(process: subprocess.Popen[bytes], folder: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        ports = folder / "logs" / "http.ports"
        if ports.exists():
            for line in ports.read_text("utf-8").split():
                if line.startswith("127.0.0.1:") and _healthy(f"http://{line}"):
                    return f"http://{line}"
        time.sleep(0.1)
    said = [
        line for line in (folder / "output").read_text("utf-8", "replace").splitlines() if not line.startswith("\tat ")
    ]
    raise NodeFailed("the OpenSearch node did not start:\n" + "\n".join(said[-20:]))


def _healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(
            f"{address}/_cluster/health?wait_for_status=yellow&timeout=5s", timeout=10
        ) as answer:
            return bool(json.load(answer)["status"] in ("yellow", "green"))
    except (OSError, urllib.error.URLError):
        return False


def _open_to_all(folder: Path) -> bool:
    return all(path.stat().st_mode & stat.S_IXOTH for path in (folder, *folder.parents))
