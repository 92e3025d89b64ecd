"""GET /v1/memory/export"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.base import NoBody
from shared.api.routes import DEFAULT_PAGE_ROWS, MAX_PAGE_ROWS
from shared.bootstrap import services
from shared.usecases.transfer import export_page


@endpoint("export", services, NoBody)
def handler(call: Call[NoBody]) -> Reply:
    call.takes("cursor", "limit")
    limit = call.whole("limit", DEFAULT_PAGE_ROWS, 1, MAX_PAGE_ROWS)
    page = export_page(call.services, call.caller, call.http.query.get("cursor"), limit)
    following = {"X-Next-Cursor": page.next_cursor} if page.next_cursor else {}
    return Reply("".join(line + "\n" for line in page.lines), content_type="application/x-ndjson", headers=following)
