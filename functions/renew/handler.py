"""POST /v1/memory/consolidate/renew"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.consolidation import BatchRequest
from shared.bootstrap import services
from shared.usecases.consolidate import renew


@endpoint("renew", services, BatchRequest)
def handler(call: Call[BatchRequest]) -> Reply:
    return Reply(renew(call.services, call.caller, call.body.batch_id))
