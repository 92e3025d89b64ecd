"""A real boto3 client whose requests go no further than this process: the table in memory answers them.

Everything between a call and the bytes on the wire is botocore's own, and so is the way back.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from botocore import xform_name
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.dynamodb.table import MemoryTable
from tests.emulator.ministack import session
from tests.faults.hook import Sending


class LocalService:
    """Stands in for the sender of botocore's requests."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table

    def send(self, prepared: AWSPreparedRequest) -> AWSResponse:
        sending = Sending(prepared, self.send)
        try:
            answer = getattr(self._table, xform_name(sending.operation))(**_from_json(sending.body))
        except ClientError as error:
            response: dict[str, Any] = error.response
            more = {name: _to_json(response[name]) for name in ("CancellationReasons", "Item") if name in response}
            return sending.refused(response["Error"]["Code"], **more)
        answer.pop("ResponseMetadata", None)
        return sending.answered(200, json.dumps(_to_json(answer)).encode())


def local_client(table: MemoryTable) -> Any:
    """Repeats nothing by itself, like the service's own client."""
    once = Config(retries={"total_max_attempts": 1})
    client = session().client("dynamodb", endpoint_url="http://memory.invalid", config=once)
    client._endpoint.http_session = LocalService(table)
    return client


def _from_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.keys() == {"B"} and isinstance(value["B"], str):
            return {"B": base64.b64decode(value["B"])}
        return {name: _from_json(each) for name, each in value.items()}
    return [_from_json(each) for each in value] if isinstance(value, list) else value


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: _to_json(each) for name, each in value.items()}
    return [_to_json(each) for each in value] if isinstance(value, list | tuple) else value
