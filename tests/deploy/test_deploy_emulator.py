"""`make deploy-emulator` as a person runs it, and the README's first commands on what it deployed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from infra.toolkit import ROOT
from tests.readme.test_readme import ADDRESS, blocks

pytestmark = pytest.mark.xdist_group("deployed")

READY_S, ENDS_S = 300, 60
READY = re.compile(
    r"ready: (?P<url>http\S+)\n  first key, with every scope: (?P<key>mk_\S+)\n  account: AWS_ENDPOINT_URL=(?P<aws>\S+)"
)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[re.Match[str]]:
    """What it printed when it was ready. In the end it is asked to stop, and has to."""
    log = tmp_path_factory.mktemp("emulator") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "infra.local.deploy_emulator", "--port", "0"],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + READY_S
        while (found := READY.search(log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        yield found
        process.send_signal(signal.SIGTERM)
        assert process.wait(ENDS_S) == 0
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{found['url']}/health")
    finally:
        process.kill()
        process.wait()


def test_the_first_key_has_every_scope(said: re.Match[str]) -> None:
    headers = {"Authorization": f"Bearer {said['key']}"}
    made = httpx.post(
        f"{said['url']}/v1/keys", json={"name": "next", "scopes": ["memories:read"]}, headers=headers, timeout=60
    )
    assert made.status_code == 201, made.text


def test_the_commands_of_the_readme_work_on_it(said: re.Match[str], tmp_path: Path) -> None:
    script = blocks("Try it", "sh")[1].replace(ADDRESS, said["url"]).replace("python3", sys.executable)
    ran = subprocess.run(
        ["bash", "-eu"], input=script, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    first, second, inspected = [line for line in ran.stdout.splitlines() if line.startswith("{")][-3:]
    assert "Lisbon" in first
    assert "commutes by ferry" in second
    assert "We moved to Lisbon in March." in inspected
    assert "take the ferry to work" in inspected


def test_operators_commands_find_it_by_its_environment(said: re.Match[str]) -> None:
    account = {
        "AWS_ENDPOINT_URL": said["aws"],
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": "us-east-1",
    }
    made = subprocess.run(
        [sys.executable, "-m", "infra.admin_key", "--env", "emulator", "second", "admin"],
        cwd=ROOT, env={"PATH": os.environ["PATH"], **account}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    listed = httpx.get(f"{said['url']}/v1/keys", headers={"Authorization": f"Bearer {key}"}, timeout=60)
    assert listed.status_code == 200, listed.text
    unknown = subprocess.run(
        [sys.executable, "-m", "infra.admin_key", "--env", "dev"],
        cwd=ROOT, env={"PATH": os.environ["PATH"], **account}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert unknown.returncode == 2
    assert "there is no stack strata-dev-data in this account and region: deploy it first" in unknown.stderr


def test_a_port_that_is_taken_is_named_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = subprocess.run(
            [sys.executable, "-m", "infra.local.deploy_emulator", "--port", str(port)],
            cwd=ROOT, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"strata cannot be deployed: port {port} cannot be used")
    assert "--port 0" in ran.stderr
    assert "Traceback" not in ran.stderr
