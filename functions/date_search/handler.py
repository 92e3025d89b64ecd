"""POST /v1/memory/date-search"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.retrieval import DateSearchRequest
from shared.bootstrap import services
from shared.usecases.date_search import date_search


@endpoint("date_search", services, DateSearchRequest)
def handler(call: Call[DateSearchRequest]) -> Reply:
    body = call.body
    return Reply(
        date_search(
            call.services,
            call.caller,
            from_=body.from_,
            to=body.to,
            query=body.query,
            tiers=body.tiers,
            max_tokens=body.max_tokens,
            order=body.order or "newest_first",
            importance=body.importance,
            after_id=body.after_id,
        )
    )
