"""POST /v1/memory/import"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.jsonl import ImportLines
from shared.bootstrap import services
from shared.usecases.transfer import import_page


@endpoint("import_vault", services, ImportLines)
def handler(call: Call[ImportLines]) -> Reply:
    call.takes("finish")
    return Reply(import_page(call.services, call.caller, call.body.rows, call.flag("finish")))
