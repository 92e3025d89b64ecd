"""The endpoint as a process, and that nothing of the developer's own settings reaches its clients."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.local.emulator import EmulatorFailed
from tests.emulator.ministack import Ministack, start

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.loopback]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _ends(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not _lives(pid)


def test_it_ends_with_its_block_and_leaves_nothing() -> None:
    with start({"LOG_LEVEL": "INFO"}) as stack:
        assert stack.client("dynamodb").list_tables()["TableNames"] == []
        assert _lives(stack.pid)
        assert "Ready" in stack.log.read_text()
    assert _ends(stack.pid)
    assert not stack.folder.exists()


def test_it_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, signal\n"
        "from tests.emulator.ministack import start\n"
        "with start() as stack:\n"
        "    print(stack.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert _ends(int(run.stdout))


def test_a_start_that_fails_shows_why() -> None:
    with start() as stack, pytest.raises(EmulatorFailed, match="already in use"), start(port=int(stack.url[-5:])):
        pass


def test_clients_do_not_see_the_developers_settings(
    ministack: Ministack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "config"
    own.write_text("[default]\nregion = eu-west-1\nendpoint_url = http://127.0.0.1:1\n[profile nobody]\n")
    nowhere = ("AWS_ENDPOINT_URL", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy")
    for name in nowhere:
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(own))
    monkeypatch.setenv("AWS_PROFILE", "missing")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    client = ministack.client("sqs")
    assert client.meta.region_name == "us-east-1"
    assert client.meta.endpoint_url == ministack.url
    client.list_queues()


def test_two_can_run_beside_each_other(ministack: Ministack) -> None:
    with start() as other:
        assert other.url != ministack.url
        other.client("sqs").create_queue(QueueName="mine")
        assert not ministack.client("sqs").list_queues().get("QueueUrls")
