"""What needs no key: the front page and the health check."""

from __future__ import annotations

from html import escape

from shared.api.http import HttpRequest, Reply
from shared.api.routes import ROUTES
from shared.domain.times import to_text
from shared.usecases.services import Services

NAME = "strata"
VERSION = "0.1.0"
SUMMARY = "An agent-memory vault whose consolidation is a transaction."
OPENAPI_PATH = "/openapi.json"


def health(services: Services) -> Reply:
    return Reply({"status": "healthy", "timestamp": to_text(services.clock.now_ms()), "name": NAME, "version": VERSION})


def home(http: HttpRequest) -> Reply:
    """A short page for people, the same as JSON for programs."""
    if _prefers_html(http.headers.get("accept", "")):
        return Reply(_page(), content_type="text/html; charset=utf-8")
    return Reply(
        {
            "name": NAME,
            "version": VERSION,
            "status": "ok",
            "summary": SUMMARY,
            "docs": "README.md",
            "openapi": OPENAPI_PATH,
            "endpoints": [f"{route.method} {route.path}" for route in ROUTES],
        }
    )


def _prefers_html(accept: str) -> bool:
    kinds = [kind.partition(";")[0].strip().lower() for kind in accept.split(",")]
    html = kinds.index("text/html") if "text/html" in kinds else len(kinds)
    json = kinds.index("application/json") if "application/json" in kinds else len(kinds)
    return html < json


def _page() -> str:
    rows = "\n".join(
        f"<tr><td><code>{route.method} {escape(route.path)}</code></td><td>{escape(route.summary)}</td></tr>"
        for route in ROUTES
    )
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{NAME}</title>
<style>body {{ font: 16px/1.5 system-ui; max-width: 48rem; margin: 2rem auto; padding: 0 1rem }}
td {{ padding-right: 1.5rem; vertical-align: top }}</style>
<h1>{NAME} {VERSION}</h1>
<p>{SUMMARY} Store what was said, search it, and let your own model turn it into reflections:
check a batch out, write, commit. Every reflection leads back to the exact words.</p>
<p>Docs: <code>README.md</code> and <code>docs/api.md</code> of this project. Every field of every endpoint:
<a href="{OPENAPI_PATH}">{OPENAPI_PATH}</a>.</p>
<table>
{rows}
</table>
</html>
"""
