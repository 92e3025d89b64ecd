"""POST /v1/memory/warmup"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.base import NoBody
from shared.bootstrap import services
from shared.usecases.stats import warmup


@endpoint("warmup", services, NoBody)
def handler(call: Call[NoBody]) -> Reply:
    return Reply(warmup(call.services, call.caller))
