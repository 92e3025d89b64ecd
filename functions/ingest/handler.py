"""POST /v1/memory/ingest"""

from shared.api.endpoint import Call, endpoint
from shared.api.http import Reply
from shared.api.models.ingest import IngestRequest
from shared.bootstrap import services
from shared.usecases.ingest import ingest


@endpoint("ingest", services, IngestRequest)
def handler(call: Call[IngestRequest]) -> Reply:
    return Reply(ingest(call.services, call.caller, call.body.to_store(), call.idempotency()))
