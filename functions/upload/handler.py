"""POST /v1/memory/upload"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.jsonl import UploadLines
from shared.bootstrap import services
from shared.usecases.ingest import upload


@endpoint("upload", services, UploadLines)
def handler(call: Call[UploadLines]) -> Reply:
    return Reply(upload(call.services, call.caller, call.body.messages, call.body.total))
