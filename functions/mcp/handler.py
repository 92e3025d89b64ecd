"""POST /mcp. The tools are the file that `python -m shared.api.mcp.catalog` writes when the project is built."""

import json
from pathlib import Path

from shared.api.mcp.shell import mcp
from shared.bootstrap import services

CATALOG = json.loads((Path(__file__).parent / "tools.json").read_text("utf-8"))
handler = mcp(services, CATALOG)
