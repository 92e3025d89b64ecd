"""POST /v1/memory/inspect"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.retrieval import InspectRequest
from shared.bootstrap import services
from shared.usecases.inspect import inspect_memory


@endpoint("inspect", services, InspectRequest)
def handler(call: Call[InspectRequest]) -> Reply:
    return Reply(inspect_memory(call.services, call.caller, call.body.memory_id, call.body.offset or 0))
