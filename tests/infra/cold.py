"""Functions started in processes of their own, from an unpacked bundle and nothing else: as Lambda starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ON_AWS = {
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "STRATA_BACKEND": "aws",
    "STRATA_TABLE": "memories",
    "STRATA_SEARCH_URL": "https://127.0.0.1:1",
    "STRATA_SERVICE": "cold",
}
SECONDS = 120

# What every function needs whatever it does: a client of the table, checked models, logs and metrics.
FLOOR = """
from botocore.config import Config
from botocore.session import get_session
import pydantic
from aws_lambda_powertools import Logger, Metrics

get_session().create_client("dynamodb", config=Config(retries={"total_max_attempts": 1, "mode": "standard"}))

class Model(pydantic.BaseModel):
    field: int

Logger(service="cold")
Metrics(namespace="Cold", service="cold")
imported = set(sys.modules)
"""
# Services are built where a handler asks for them, on its first request.
_HANDLER = """
module = __import__("functions.{name}.handler", fromlist=["handler"])
module.handler
imported = set(sys.modules)
if hasattr(module, "services"):
    module.services()
"""
_MEASURED = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
before = time.process_time()
{work}
spent = time.process_time() - before
print(json.dumps({{"cpu_s": spent, "imported": sorted(imported), "ready": sorted(sys.modules)}}))
"""


@dataclass(frozen=True)
class Start:
    """CPU seconds, without those of the interpreter itself, and the modules in memory: of the import alone, and as soon
    as a request can be served."""

    cpu_s: float
    imported: frozenset[str]
    ready: frozenset[str]


def alone(folder: Path, program: str, environment: Mapping[str, str] | None = None) -> str:
    """What a program prints that finds the standard library and otherwise only what it puts on its path itself.

    Raises `AssertionError` with its errors when it fails.
    """
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", program, str(folder)],
        cwd=folder,
        env=dict(environment or ON_AWS),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def floor_start(folder: Path) -> Start:
    return _start(folder, FLOOR)


def handler_start(folder: Path, name: str) -> Start:
    return _start(folder, _HANDLER.format(name=name))


def _start(folder: Path, work: str) -> Start:
    told: dict[str, Any] = json.loads(alone(folder, _MEASURED.format(work=work)).splitlines()[-1])
    return Start(told["cpu_s"], frozenset(told["imported"]), frozenset(told["ready"]))
