"""POST /v1/keys"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.keys import CreateKeyRequest
from shared.bootstrap import services
from shared.usecases.keys import create_key


@endpoint("keys_create", services, CreateKeyRequest)
def handler(call: Call[CreateKeyRequest]) -> Reply:
    return Reply(create_key(call.services, call.caller, call.body.name, call.body.scopes, call.body.vault or "new"))
