"""The errors of the service, shaped as boto3 raises them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from botocore.exceptions import ClientError

SERVER_SIDE = {"InternalServerError": 500, "ServiceUnavailable": 503}


class Unsupported(AssertionError):
    """The code under test used something this table does not know, or that DynamoDB does not document."""


@cache
def error_class(code: str) -> type[ClientError]:
    """What ``client.exceptions.<code>`` is."""
    return type(code, (ClientError,), {})


class Exceptions:
    """``client.exceptions``: every code as an attribute."""

    def __getattr__(self, code: str) -> type[ClientError]:
        return error_class(code)


class Refused(Exception):
    """A request that the service refuses; the operation's name is added where it is known."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.more = code, message, more

    def client_error(self, operation: str) -> ClientError:
        status = SERVER_SIDE.get(self.code, 400)
        response: dict[str, Any] = {
            "Error": {"Message": self.message, "Code": self.code},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {}, "RetryAttempts": 0, "RequestId": ""},
            "message": self.message,
            **self.more,
        }
        return error_class(self.code)(response, operation)


class Invalid(Refused):
    def __init__(self, message: str) -> None:
        super().__init__("ValidationException", message)


class ConditionFailed(Refused):
    """`item` is what the condition saw, when the request asked to have it back."""

    def __init__(self, item: Mapping[str, Any] | None) -> None:
        more = {"Item": item} if item else {}
        super().__init__("ConditionalCheckFailedException", "The conditional request failed", **more)


def cancelled(reasons: Sequence[Mapping[str, Any]]) -> Refused:
    """Each reason has a `Code` ("None" for an item without fault), else a `Message`, perhaps an `Item`."""
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    return Refused("TransactionCanceledException", message, CancellationReasons=[dict(reason) for reason in reasons])


def operation_name(method: str) -> str:
    """``put_item`` → ``PutItem``."""
    return "".join(word.capitalize() for word in method.split("_"))
