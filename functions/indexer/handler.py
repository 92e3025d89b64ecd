"""The change stream: keep the search index in step with the store, and finish what a crash left half done."""

from shared.api.stream import StreamEvent, StreamReply, consume
from shared.bootstrap import services


def handler(event: StreamEvent, context: object = None) -> StreamReply:
    return consume(services(), event, context)
