"""GET /openapi.json: the file that `python -m shared.api.openapi` writes when the project is built."""

from pathlib import Path

from shared.api.endpoint import public
from shared.api.http import HttpRequest, Reply

DOCUMENT = (Path(__file__).parent / "openapi.json").read_text("utf-8")


@public("openapi")
def handler(http: HttpRequest) -> Reply:
    return Reply(DOCUMENT)
