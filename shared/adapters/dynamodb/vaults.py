"""Every vault of a table: for operators and a single process, never for a request, since it reads the whole table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from shared.adapters.dynamodb.values import Wire, from_item
from shared.domain.errors import Unavailable
from shared.domain.memory import VaultRef


class ScanClient(Protocol):
    """What is used of the low-level ``dynamodb`` client."""

    def scan(self, **request: Any) -> Wire: ...


def stored_contents(client: ScanClient, table: str) -> Iterator[VaultRef]:
    """The contents that readers see, and those that an open import writes. Raises `Unavailable`."""
    request: Wire = {
        "TableName": table,
        "ConsistentRead": True,
        "FilterExpression": "#sk = :vault",
        "ProjectionExpression": "#pk, #epoch, #importing",
        "ExpressionAttributeNames": {name: name[1:] for name in ("#sk", "#pk", "#epoch", "#importing")},
        "ExpressionAttributeValues": {":vault": {"S": "V"}},
    }
    while True:
        try:
            answer = client.scan(**request)
        except (BotoCoreError, ClientError) as error:
            raise Unavailable("The table cannot be read through.", code="storage_unavailable", retry_after=5) from error
        for item in map(from_item, answer["Items"]):
            vault_id = str(item["pk"]).removeprefix("V#")
            for epoch in (item.get("epoch"), item.get("importing")):
                if epoch is not None:
                    yield VaultRef(vault_id, epoch)
        if "LastEvaluatedKey" not in answer:
            return
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
