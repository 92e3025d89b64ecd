"""JSON schemas of answers, for the OpenAPI document. Answers may grow fields: no schema closes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]


def _object(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": sorted(required),
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}
ID: Schema = {"type": "string", "format": "uuid"}
TIER: Schema = {"type": "integer", "enum": [1, 2, 3]}
RATING: Schema = {"type": "integer", "minimum": 1, "maximum": 10}
DEBT = _ref("Debt")
WINDOW = _ref("Window")

SCHEMAS: Mapping[str, Schema] = {
    "Anything": {"type": "object"},
    "Error": _object(
        {"error": TEXT, "code": TEXT},
        {"hint": TEXT, "details": _list(_object({"field": TEXT, "problem": TEXT}))},
    ),
    "Window": _object({"from": TIME, "to": TIME}),
    "Debt": _object(
        {
            "unconsolidated": _object(
                {
                    "raw": _object({"units": COUNT, "est_tokens": COUNT, "importance_equiv": COUNT}),
                    "tier2": _object({"count": COUNT, "importance": COUNT, "est_tokens": COUNT}),
                }
            ),
            "threshold_tokens": COUNT,
            "threshold_importance": COUNT,
            "suggestion": _or_null(TEXT),
        }
    ),
    "Row": _object(
        {"id": ID, "tier": TIER, "content": TEXT, "role": TEXT, "date": TIME},
        {
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "session_id": _or_null(TEXT),
            "importance": _or_null(RATING),
            "covers": _or_null(WINDOW),
        },
    ),
    "Key": _object({"key_id": TEXT, "name": TEXT, "scopes": _list(TEXT), "created_at": TIME}),
    "NewKey": _object({"key": TEXT, "key_id": TEXT, "name": TEXT, "scopes": _list(TEXT), "created_at": TIME}),
    "Keys": _object({"keys": _list(_ref("Key"))}),
    "Ingested": _object(
        {"status": TEXT, "stored": COUNT, "ids": _list(ID), "session_id": _or_null(TEXT), "reflection": DEBT}
    ),
    "Uploaded": _object({"status": TEXT, "memoryKey": TEXT, "vault": TEXT, "stats": _ref("Anything"), "message": TEXT}),
    "Found": _object({"memories": _list(_ref("Row")), "reflection": DEBT}, {"truncated": FLAG}),
    "Prepared": _object(
        {"context": TEXT, "memories_found": COUNT, "tokens": COUNT, "reflection": DEBT}, {"truncated": FLAG}
    ),
    "FoundByDate": _object(
        {
            "memories": _list(_ref("Row")),
            "returned": _object({"from": TIME, "to": TIME}, {"after_id": ID}),
            "truncated": FLAG,
            "reflection": DEBT,
        }
    ),
    "Inspected": _object(
        {"memory_id": ID, "tier": TIER},
        {
            "content": TEXT,
            "role": TEXT,
            "date": TIME,
            "consolidated_into": _list(_object({"id": ID, "tier": TIER})),
            "batch_id": TEXT,
            "sources": _list(_ref("Row")),
            "sources_total": COUNT,
            "sources_deleted": COUNT,
            "truncated": FLAG,
            "next_offset": _or_null(COUNT),
        },
    ),
    "CheckedOut": _object(
        {"batch_id": _or_null(TEXT), "count": COUNT, "tier": TIER},
        {"memories": _list(_object({"text": TEXT, "date": TIME})), "source_ids": _list(ID), "message": TEXT},
    ),
    "Committed": _object(
        {
            "batch_id": TEXT,
            "committed": FLAG,
            "already_committed": FLAG,
            "tier": TIER,
            "created": _list(_object({"id": ID, "importance": RATING})),
            "sources_consolidated": COUNT,
            "reflection": DEBT,
        }
    ),
    "Released": _object({"batch_id": TEXT, "state": TEXT, "returned": COUNT, "reflection": DEBT}),
    "Renewed": _object({"batch_id": TEXT, "state": TEXT, "lease_expires_at": TIME, "reflection": DEBT}),
    "Reopened": _object(
        {"batch_id": TEXT, "state": TEXT, "reflections_removed": COUNT, "sources_returned": COUNT, "reflection": DEBT}
    ),
    "Imported": _object({"status": {"enum": ["open", "complete"]}, "stored": COUNT, "total": COUNT}),
    "DeletedIds": _object(
        {
            "requested": COUNT,
            "deleted": COUNT,
            "do_deleted": COUNT,
            "not_found": COUNT,
            "legacy_fallback_used": COUNT,
            "failed": _list(TEXT),
        }
    ),
    "DeletedVault": _object(
        {"key": TEXT, "deleted": FLAG, "reset": FLAG, "sessionCleared": FLAG, "d1Synced": FLAG, "message": TEXT}
    ),
}

OF_ROUTE: Mapping[str, str] = {
    "keys_create": "NewKey",
    "keys_list": "Keys",
    "ingest": "Ingested",
    "upload": "Uploaded",
    "search": "Found",
    "prepare": "Prepared",
    "date_search": "FoundByDate",
    "inspect": "Inspected",
    "checkout": "CheckedOut",
    "commit": "Committed",
    "release": "Released",
    "renew": "Renewed",
    "reopen": "Reopened",
    "import_vault": "Imported",
    "delete_ids": "DeletedIds",
    "delete_vault": "DeletedVault",
}

TOOL_SCHEMAS: Mapping[str, Schema] = {
    "Results": _object({"results": _list(_object({"id": ID, "title": TEXT, "url": TEXT}))}),
    "Fetched": _object({"id": ID, "title": TEXT, "text": TEXT, "url": TEXT, "metadata": {"type": "object"}}),
    "Status": _object(
        {
            "connected": FLAG,
            "vaultRef": TEXT,
            "storage": TEXT,
            "totalMemories": COUNT,
            "totalTokens": COUNT,
            "grantedScopes": _list(TEXT),
        },
        {"tiers": {"type": "object"}, "reflection": DEBT},
    ),
    "Receipt": _object({"status": TEXT, "stored": COUNT}, {"session_id": _or_null(TEXT), "reflection": DEBT}),
    "Batch": _object(
        {"batch_id": _or_null(TEXT), "tier": TIER, "count": COUNT},
        {
            "lease_expires_at": TIME,
            "memories": _list(_object({"text": TEXT, "date": TIME})),
            "reflection_contract": _object({"instructions": TEXT}),
            "message": TEXT,
            "leased": COUNT,
            "next_expiry": _or_null(TIME),
        },
    ),
    "Done": _object(
        {
            "tier": TIER,
            "committed": FLAG,
            "already_committed": FLAG,
            "entries_created": COUNT,
            "sources_consolidated": COUNT,
        },
        {"debt": DEBT},
    ),
    "Deleted": _object({"requested": COUNT, "deleted": COUNT, "not_found": COUNT}),
    "Forgotten": _object({"deleted": FLAG, "message": TEXT, "vaultRef": TEXT}),
}
"""Of answers that only tools give."""

OF_TOOL: Mapping[str, str] = {
    "search_memories": "Found",
    "date_search_memories": "FoundByDate",
    "inspect_memory": "Inspected",
    "search": "Results",
    "fetch": "Fetched",
    "memory_status": "Status",
    "store_memory": "Receipt",
    "consolidate_memories": "Batch",
    "commit_reflections": "Done",
    "delete_memories": "Deleted",
    "forget_all_memories": "Forgotten",
}
