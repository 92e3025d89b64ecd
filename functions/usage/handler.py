"""GET /v1/account/usage"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.base import NoBody
from shared.bootstrap import services
from shared.usecases.stats import account_usage


@endpoint("usage", services, NoBody)
def handler(call: Call[NoBody]) -> Reply:
    query = call.http.query
    return Reply(account_usage(call.services, call.caller, query.get("start"), query.get("end")))
