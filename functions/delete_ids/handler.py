"""POST /v1/memory/delete-ids"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.keys import DeleteIdsRequest
from shared.bootstrap import services
from shared.usecases.deletion import delete_ids


@endpoint("delete_ids", services, DeleteIdsRequest)
def handler(call: Call[DeleteIdsRequest]) -> Reply:
    return Reply(delete_ids(call.services, call.caller, call.body.ids))
