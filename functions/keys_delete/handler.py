"""DELETE /v1/keys/{key_id}"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.base import NoBody
from shared.bootstrap import services
from shared.usecases.keys import delete_key


@endpoint("keys_delete", services, NoBody)
def handler(call: Call[NoBody]) -> Reply:
    return Reply(delete_key(call.services, call.caller, call.http.path["key_id"]))
