"""The change stream: keep the search index in step with the store."""

from shared.api.stream import StreamEvent, StreamReply, for_each_vault
from shared.bootstrap import services
from shared.usecases.indexing import index_changes


def handler(event: StreamEvent, context: object = None) -> StreamReply:
    return for_each_vault(event, lambda vault, changes, vectors: index_changes(services(), vault, changes, vectors))
