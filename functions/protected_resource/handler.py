"""GET /.well-known/oauth-protected-resource"""

from shared.api.endpoint import public
from shared.api.http import HttpRequest, Reply
from shared.api.mcp.metadata import protected_resource
from shared.bootstrap import services


@public("protected_resource")
def handler(http: HttpRequest) -> Reply:
    return protected_resource(http, services())
