"""POST /v1/memory/search"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.retrieval import DEFAULT_LIMIT, SearchRequest
from shared.bootstrap import services
from shared.usecases.search import search


@endpoint("search", services, SearchRequest)
def handler(call: Call[SearchRequest]) -> Reply:
    body = call.body
    limit = DEFAULT_LIMIT if body.limit is None else body.limit
    return Reply(search(call.services, call.caller, body.query, limit, body.tiers, body.importance))
