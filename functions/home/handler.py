"""GET /"""

from shared.api.endpoint import public
from shared.api.http import HttpRequest, Reply
from shared.api.pages import home


@public("home")
def handler(http: HttpRequest) -> Reply:
    return home(http)
