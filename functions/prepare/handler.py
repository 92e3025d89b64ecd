"""POST /v1/memory/prepare"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.retrieval import PrepareRequest
from shared.bootstrap import services
from shared.usecases.prepare import prepare


@endpoint("prepare", services, PrepareRequest)
def handler(call: Call[PrepareRequest]) -> Reply:
    body = call.body
    turns = [(turn.role, turn.content) for turn in body.messages]
    return Reply(
        prepare(
            call.services,
            call.caller,
            turns,
            body.density or "default",
            body.context_limit,
            body.context_tokens,
            body.tiers,
            body.importance,
        )
    )
