"""The description of the HTTP interface (`openapi.json`), and a self-contained page that shows it.

WebSocket protocols are not part of OpenAPI: docs/reference/server.md and docs/reference/protocols.md describe them.
"""

import json
from html import escape
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("openapi.json")


def document(version: str, *, keyed: bool) -> dict[str, Any]:
    """Build the description; `keyed`: this server asks for keys."""
    described: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    described["info"]["version"] = version or "0"
    if not keyed:
        del described["security"]
    return described


def page(description: dict[str, Any]) -> str:
    """Render the description as one plain page."""
    parts = []
    for path, item in description["paths"].items():
        for method, operation in item.items():
            if method == "parameters":
                continue
            form = operation.get("requestBody", {}).get("content", {}).get("multipart/form-data", {})
            rows = "".join(
                f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(field))}</td>"
                f"<td>{escape(field.get('description', ''))}</td></tr>"
                for name, field in form.get("schema", {}).get("properties", {}).items()
            )
            table = f"<table>{rows}</table>" if rows else ""
            parts.append(
                f"<h2>{method.upper()} <code>{escape(path)}</code></h2><p>{escape(operation['summary'])}. "
                f"Answers: {', '.join(operation['responses'])}.</p>{table}"
            )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<title>whispertide: HTTP interface</title><link rel=stylesheet href=docs.css>"
        "<h1>whispertide: HTTP interface</h1><p>For programs: <a href=openapi.json>/openapi.json</a>. "
        "Live sessions use WebSockets at <code>/ws</code>.</p>" + "".join(parts)
    )


def _kind(field: dict[str, Any]) -> str:
    return ", ".join(field["enum"]) if "enum" in field else str(field.get("format", field["type"]))
