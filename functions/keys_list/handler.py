"""GET /v1/keys"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.base import NoBody
from shared.bootstrap import services
from shared.usecases.keys import list_keys


@endpoint("keys_list", services, NoBody)
def handler(call: Call[NoBody]) -> Reply:
    return Reply(list_keys(call.services, call.caller))
