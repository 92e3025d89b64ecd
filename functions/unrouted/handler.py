"""Every request that no other function takes."""

from shared.api.http import Event, LambdaReply
from shared.api.unrouted import unrouted


def handler(event: Event, context: object = None) -> LambdaReply:
    return unrouted(event)
