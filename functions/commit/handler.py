"""POST /v1/memory/consolidate/commit"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.consolidation import CommitRequest
from shared.bootstrap import services
from shared.usecases.consolidate import commit


@endpoint("commit", services, CommitRequest)
def handler(call: Call[CommitRequest]) -> Reply:
    return Reply(commit(call.services, call.caller, call.body.batch_id, call.body.pairs()))
