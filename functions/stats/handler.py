"""GET /v1/memory/stats"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.base import NoBody
from shared.bootstrap import services
from shared.usecases.stats import stats


@endpoint("stats", services, NoBody)
def handler(call: Call[NoBody]) -> Reply:
    return Reply(stats(call.services, call.caller))
