"""GET /health, GET /v1/health"""

from shared.api.endpoint import public
from shared.api.http import HttpRequest, Reply
from shared.api.pages import health
from shared.bootstrap import services


@public("health")
def handler(http: HttpRequest) -> Reply:
    return health(services())
