"""CloudFormation's custom resources: do what a deployment asks, and always say how it went.

CloudFormation waits for one HTTP PUT to the address of the event; a function that ends without it holds a deployment
up for an hour.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import urllib3

from shared.domain.errors import StrataError

log = logging.getLogger("strata.provision")

CustomResourceEvent = Mapping[str, Any]

NAME = "strata-search-indexes"
MAX_REASON = 1_000
SECONDS = 10.0
ATTEMPTS = 3


def settle(event: CustomResourceEvent, work: Callable[[int], Sequence[str]]) -> None:
    """Do `work`, which is given the number of replicas, and report. A deletion does nothing: indexes hold data."""
    status, reason, names = "SUCCESS", "", []
    if event["RequestType"] != "Delete":
        try:
            names = list(work(int(event["ResourceProperties"]["Replicas"])))
        except StrataError as error:
            status, reason = "FAILED", f"{error.message} {error.hint or ''}".strip()
        except Exception as error:
            log.exception("the indexes could not be provisioned")
            status, reason = "FAILED", f"{type(error).__name__}; the log of the function `provision` says where"
    answer = {
        "Status": status,
        "Reason": reason[:MAX_REASON],
        "PhysicalResourceId": event.get("PhysicalResourceId") or NAME,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": {"Indexes": ",".join(names)},
    }
    # The address is signed for a request without a Content-Type.
    urllib3.PoolManager(retries=urllib3.Retry(ATTEMPTS, allowed_methods=None)).request(
        "PUT", event["ResponseURL"], body=json.dumps(answer).encode(), headers={"Content-Type": ""}, timeout=SECONDS
    )
