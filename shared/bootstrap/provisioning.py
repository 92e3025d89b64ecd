"""Making what the AWS back end needs where no stack makes it: a table on an emulator, search indexes anywhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from shared.adapters.dynamodb.layout import SCHEMA, TTL
from shared.domain.errors import StrataError

if TYPE_CHECKING:
    from shared.adapters.opensearch.transport import Transport
    from shared.bootstrap.aws import Aws

__all__ = [
    "SCHEMA",
    "TTL",
    "RebuildFirst",
    "StillNeeded",
    "create_indexes",
    "create_queue",
    "create_table",
    "drop_other_layouts",
    "other_layouts",
    "prepare_indexes",
]

READY_S = 60.0
REBUILD = "python -m infra.index rebuild"


class RebuildFirst(StrataError):
    """An installation that may have rows has no index of this layout, and an empty one must not answer for it."""

    code = "rebuild_first"


class StillNeeded(StrataError):
    """An index of another layout cannot be dropped yet."""

    code = "still_needed"


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


@contextmanager
def _connected(aws: Aws) -> Iterator[Transport]:
    transport = aws.transport()
    try:
        yield transport
    finally:
        transport.close()


def create_indexes(aws: Aws, replicas: int = 0) -> list[str]:
    """Make sure that every model has an index, empty or not; returns their names. For an installation without rows."""
    from shared.adapters.opensearch.maintain import create

    with _connected(aws) as transport:
        return [
            create(transport, model, dimension, aws.indexes, replicas=replicas, version=aws.layout)
            for model, dimension in aws.models()
        ]


def prepare_indexes(aws: Aws, replicas: int = 0) -> list[str]:
    """Make sure that every model has a usable index of this release's layout; returns the names of all.

    To be called before functions are put into service, as often as one likes. Changes nothing and raises `RebuildFirst`
    where an empty index would hide rows: where a model has an index of another layout or one that is being filled, and
    where no model has any but the table has vaults. A model that is new to an installation gets an empty one.
    """
    from shared.adapters.opensearch.layouts import found
    from shared.adapters.opensearch.mapping import alias

    missing = 0
    with _connected(aws) as transport:
        for model, dimension in aws.models():
            name = alias(model, dimension, aws.indexes, aws.layout)
            every = found(transport, model, dimension, aws.indexes)
            if any(name in index.aliases for index in every):
                continue
            if every:
                others = ", ".join(index.name for index in every)
                raise RebuildFirst(
                    f"There is no index {name} yet, only {others}: run `{REBUILD}` with this release, then deploy it."
                )
            missing += 1
    if missing and missing == len(aws.models()) and aws.has_vaults():
        raise RebuildFirst(
            f"The table {aws.table.name} has vaults, the search store no index of them: run `{REBUILD}`, then deploy."
        )
    return create_indexes(aws, replicas)


def other_layouts(aws: Aws) -> list[str]:
    """Names of the indexes that releases with another layout use or used, oldest layout first."""
    from shared.adapters.opensearch.layouts import found

    with _connected(aws) as transport:
        return [
            index.name
            for model, dimension in aws.models()
            for index in found(transport, model, dimension, aws.indexes)
            if index.layout != aws.layout
        ]


def drop_other_layouts(aws: Aws, newer: bool = False) -> list[str]:
    """Remove the indexes of older layouts, or those of newer ones, and what an interrupted rebuild left behind.

    Returns the names. Raises `Unavailable` when a model's own index cannot be used, and `StillNeeded` when another one
    has rows that it lacks; nothing is dropped then.
    """
    from shared.adapters.opensearch.layouts import found, lacks
    from shared.adapters.opensearch.maintain import drop, usable
    from shared.adapters.opensearch.mapping import alias

    dropped: list[str] = []
    with _connected(aws) as transport:
        for model, dimension in aws.models():
            name = alias(model, dimension, aws.indexes, aws.layout)
            every = found(transport, model, dimension, aws.indexes)
            others = [each for each in every if (each.layout > aws.layout if newer else each.layout < aws.layout)]
            if others:
                usable(transport, name, aws.layout)
            for other in others:
                if lacks(transport, aws.store, name, other.name):
                    raise StillNeeded(
                        f"{other.name} has rows that {name} lacks: another release still writes there, or what it wrote"
                        " was not brought over.",
                        hint="Deploy this release, run `python -m infra.index reconcile`, then try again.",
                    )
            dropped += [each.name for each in others]
            dropped += [each.name for each in every if each.layout == aws.layout and not each.aliases]
        for name in dropped:
            drop(transport, name)
    return dropped
