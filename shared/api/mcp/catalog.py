"""What `tools/list` answers, made from the tool table and the argument models when the project is built.

``python -m shared.api.mcp.catalog > functions/mcp/tools.json``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from shared.api import answers
from shared.api.mcp.tools import TOOLS
from shared.api.models import tools as models
from shared.api.models.tools import Arguments

Schema = dict[str, Any]

ARGUMENTS: Mapping[str, type[Arguments]] = {
    "search_memories": models.SearchMemories,
    "date_search_memories": models.DateSearchMemories,
    "inspect_memory": models.InspectMemory,
    "search": models.Search,
    "fetch": models.Fetch,
    "memory_status": models.MemoryStatus,
    "store_memory": models.StoreMemory,
    "consolidate_memories": models.ConsolidateMemories,
    "commit_reflections": models.CommitReflections,
    "delete_memories": models.DeleteMemories,
    "forget_all_memories": models.ForgetAllMemories,
}


def catalog() -> list[Schema]:
    """Every tool, in the order of the table."""
    return [
        {
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": _input(ARGUMENTS[tool.name]),
            "outputSchema": _whole(answers.OF_TOOL[tool.name]),
            "annotations": tool.annotations,
        }
        for tool in TOOLS
    ]


def _input(model: type[Arguments]) -> Schema:
    schema = model.model_json_schema(by_alias=True)
    schema.pop("title", None)
    definitions = schema.pop("$defs", {})
    found: Schema = _plain(schema, definitions)
    found.setdefault("properties", {})
    return found


def _plain(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Without references, and without the titles that only repeat the names: some clients take neither."""
    if isinstance(node, list):
        return [_plain(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {name: _plain(each, definitions) for name, each in node.items() if not _says_nothing(name, each)}


def _says_nothing(name: str, value: object) -> bool:
    """Whether it is a title, not a property of that name, or the default of what may be left out."""
    return (name == "title" and isinstance(value, str)) or (name == "default" and value is None)


def _whole(name: str) -> Schema:
    """An answer's schema, with what it refers to put in its place."""
    known = {**answers.SCHEMAS, **answers.TOOL_SCHEMAS}
    found: Schema = _plain(known[name], known)
    return found


def as_text() -> str:
    return json.dumps(catalog(), ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(as_text())
