"""ministack for tests, with clients that nothing of the developer's own AWS settings reaches.

Used as ``with ministack.start() as stack:`` or through the fixture of `tests.emulator.fixture`.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import boto3
import botocore.session
from botocore.config import Config

from infra.local import emulator
from infra.local.emulator import REGION, Emulator

ACCOUNT = "000000000000"
CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


class Ministack(Emulator):
    """A running endpoint and the way to it."""

    def client(self, service: str, attempts: int = 1, connections: int = 32, timeout_s: float = 30) -> Any:
        """A boto3 client of this endpoint; `attempts` counts the first request too, 1 means that none is repeated."""
        return session().client(
            service,
            endpoint_url=self.url,
            config=Config(
                proxies={},
                max_pool_connections=connections,
                connect_timeout=timeout_s,
                read_timeout=timeout_s,
                retries={"total_max_attempts": attempts, "mode": "standard"},
                s3={"addressing_style": "path"},
            ),
        )

    def environment(self) -> dict[str, str]:
        """What a program needs to speak to this endpoint, beside its own variables."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": CREDENTIALS["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": CREDENTIALS["aws_secret_access_key"],
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }


def session() -> boto3.Session:
    """A session that knows the dummy credentials and the region, and reads no shared configuration."""
    own: dict[str, Any] = {
        "profile": (None, None, None, None),
        "config_file": (None, None, os.devnull, None),
        "credentials_file": (None, None, os.devnull, None),
    }
    return boto3.Session(region_name=REGION, botocore_session=botocore.session.Session(session_vars=own), **CREDENTIALS)


@contextmanager
def start(settings: Mapping[str, str] | None = None, port: int = 0) -> Iterator[Ministack]:
    """Runs until the end of the block; it ends by itself when this process does not come to that."""
    with emulator.running(settings, port) as running:
        yield Ministack(running.url, running.pid, running.folder)


@cache
def shared() -> Ministack:
    """The one of this process, started by who asks first; it ends with the process."""
    running = ExitStack()
    atexit.register(running.close)
    return running.enter_context(start())
