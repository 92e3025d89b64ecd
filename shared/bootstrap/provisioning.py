"""Making what the AWS back end needs where no stack makes it: a table on an emulator, search indexes anywhere."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from shared.adapters.dynamodb.layout import SCHEMA, TTL

READY_S = 60.0


def create_table(client: Any, name: str) -> None:
    """Make the table, with its stream and its time to live, and wait for it. Changes nothing when it is there."""
    with suppress(client.exceptions.ResourceInUseException):
        client.create_table(TableName=name, **SCHEMA)
    deadline = time.monotonic() + READY_S
    while client.describe_table(TableName=name)["Table"]["TableStatus"] != "ACTIVE":
        if time.monotonic() > deadline:
            raise TimeoutError(f"the table {name} does not become active")
        time.sleep(0.2)
    described = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if described.get("TimeToLiveStatus") in ("DISABLED", None):
        client.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL})


def create_queue(client: Any, name: str) -> str:
    """The address of the queue of that name, which is made when it is missing."""
    return str(client.create_queue(QueueName=name)["QueueUrl"])


def create_indexes(transport: Any, models: Iterable[tuple[str, int]], prefix: str, replicas: int) -> list[str]:
    """Make a usable search index for each (model, dimension); returns the names of all, made now or before."""
    from shared.adapters.opensearch.maintain import create

    return [create(transport, model, dimension, prefix, replicas=replicas) for model, dimension in models]
