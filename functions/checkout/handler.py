"""POST /v1/memory/consolidate/checkout"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.consolidation import CheckoutRequest
from shared.bootstrap import services
from shared.usecases.consolidate import checkout


@endpoint("checkout", services, CheckoutRequest)
def handler(call: Call[CheckoutRequest]) -> Reply:
    return Reply(checkout(call.services, call.caller, call.body.tier, call.body.max_tokens))
