"""DELETE /v1/memory"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.base import NoBody
from shared.bootstrap import services
from shared.usecases.deletion import delete_vault


@endpoint("delete_vault", services, NoBody)
def handler(call: Call[NoBody]) -> Reply:
    call.takes("reset")
    call.refuse_blank_session()
    return Reply(delete_vault(call.services, call.caller, call.flag("reset")))
