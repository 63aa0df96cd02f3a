"""The description of the HTTP interface (OpenAPI 3.1), and a page that shows it and fetches nothing from elsewhere.

WebSocket protocols are not part of OpenAPI: docs/server.md and docs/protocols.md describe them.
"""

from typing import Any

_ERROR = {
    "description": "What was wrong, in OpenAI's shape",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
_KEYED: list[dict[str, list[str]]] = [{"bearer": []}]  # nothing in a description whose server asks for no keys


def _file_request(*, translations: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "file": {"type": "string", "format": "binary", "description": "Audio or video in any format ffmpeg reads"},
        "model": {"type": "string", "description": "A model of /v1/models. Any other name means the first of them"},
        "prompt": {"type": "string", "description": "Text that sets spelling and style"},
        "response_format": {"type": "string", "enum": ["json", "text", "srt", "verbose_json", "vtt"]},
        "temperature": {"type": "number", "minimum": 0, "maximum": 1},
    }
    if not translations:
        fields["language"] = {"type": "string", "description": "ISO code or English name. Default: detected"}
        fields["stream"] = {"type": "boolean", "description": "Server-sent events, one per segment"}
        fields["timestamp_granularities[]"] = {
            "type": "array",
            "items": {"type": "string", "enum": ["word", "segment"]},
            "description": "For verbose_json",
        }
    schema = {"type": "object", "required": ["file"], "properties": fields}
    return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}


def _file_operation(summary: str, *, translations: bool) -> dict[str, Any]:
    content: dict[str, Any] = {
        "application/json": {"schema": {"$ref": "#/components/schemas/Transcription"}},
        "text/plain": {"schema": {"type": "string"}},
        "text/vtt": {"schema": {"type": "string"}},
        "application/x-subrip": {"schema": {"type": "string"}},
        "text/event-stream": {"schema": {"$ref": "#/components/schemas/ServerSentEvent"}},
    }
    codes = ("400", "401", "403", "408", "413", "429", "500", "503")
    responses = {"200": {"description": "The transcript", "content": content}, **dict.fromkeys(codes, _ERROR)}
    body = _file_request(translations=translations)
    return {"post": {"summary": summary, "requestBody": body, "responses": responses, "security": _KEYED}}


def _plain(summary: str, *codes: str, secured: bool = False) -> dict[str, Any]:
    responses: dict[str, Any] = {"200": {"description": summary}, **{code: {"description": "No"} for code in codes}}
    return {"get": {"summary": summary, "responses": responses, **({"security": _KEYED} if secured else {})}}


def _made(summary: str) -> dict[str, Any]:
    body = {"content": {"application/json": {"schema": {"type": "object"}}}}
    responses = {"200": {"description": summary}, **dict.fromkeys(("400", "401", "403", "408", "413", "429"), _ERROR)}
    return {"post": {"summary": summary, "requestBody": body, "responses": responses, "security": _KEYED}}


def _token() -> dict[str, Any]:
    seconds = {
        "expires_in_seconds": (True, 1, 600, "How long it may wait to be used"),
        "max_session_duration_seconds": (False, 60, 10_800, "The most audio in the session that it opens"),
    }
    parameters = [
        {
            "name": name,
            "in": "query",
            "required": required,
            "description": what,
            "schema": {"type": "integer", "minimum": least, "maximum": most},
        }
        for name, (required, least, most, what) in seconds.items()
    ]
    operation = _plain("A key for one AssemblyAI session", "400", "401", "403", "429", secured=True)
    return {"get": {**operation["get"], "parameters": parameters}}


def document(version: str, *, keyed: bool = True) -> dict[str, Any]:
    """The whole description; `keyed` tells whether this server asks for keys."""
    model = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
    refused = ("401", "403", "429")
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "whispertide",
            "version": version or "0",
            "description": "Live speech-to-text. This is the HTTP interface. Live sessions use WebSockets.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            "/v1/audio/transcriptions": _file_operation("Transcribe a file", translations=False),
            "/v1/audio/translations": _file_operation("Translate a file into English text", translations=True),
            "/v1/models": _plain("The models that are served", *refused, secured=True),
            "/v1/models/{model}": {
                **_plain("One of them", *refused, "404", secured=True),
                "parameters": [model],
            },
            "/v1/realtime/client_secrets": _made("A temporary key, for a page"),
            "/v1/realtime/transcription_sessions": _made("The same in the older shape"),
            "/v3/token": _token(),
            "/healthz": _plain("The process is alive"),
            "/readyz": _plain("New sessions are welcome", "503"),
            "/metrics": _plain("Figures in Prometheus' format", *refused, secured=True),
        },
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {
                        "error": {
                            "type": "object",
                            "required": ["message", "type"],
                            "properties": {
                                "message": {"type": "string"},
                                "type": {"type": "string"},
                                "param": {"type": ["string", "null"]},
                                "code": {"type": ["string", "null"]},
                            },
                        }
                    },
                },
                "ServerSentEvent": {
                    "type": "object",
                    "required": ["data"],
                    "properties": {"data": {"type": "string", "description": "A JSON object as in OpenAI's API"}},
                },
                "Transcription": {
                    "type": "object",
                    "required": ["text"],
                    "properties": {
                        "text": {"type": "string"},
                        "language": {"type": "string"},
                        "duration": {"type": "number"},
                        "segments": {"type": "array", "items": {"type": "object"}},
                        "words": {"type": "array", "items": {"type": "object"}},
                        "usage": {"type": "object"},
                    },
                },
            },
        },
    }
    if not keyed:
        for item in described["paths"].values():
            for operation in (item.get("get"), item.get("post")):
                if operation is not None:
                    operation.pop("security", None)
    return described


def page(description: dict[str, Any]) -> str:
    """The description as one plain page."""
    from html import escape

    parts = []
    for path, item in description["paths"].items():
        for method in ("get", "post"):
            if method not in item:
                continue
            operation = item[method]
            fields = (
                operation.get("requestBody", {})
                .get("content", {})
                .get("multipart/form-data", {})
                .get("schema", {})
                .get("properties", {})
            )
            rows = "".join(
                f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(field))}</td>"
                f"<td>{escape(field.get('description', ''))}</td></tr>"
                for name, field in fields.items()
            )
            table = f"<table>{rows}</table>" if rows else ""
            codes = ", ".join(operation["responses"])
            parts.append(
                f"<h2>{method.upper()} <code>{escape(path)}</code></h2><p>{escape(operation['summary'])}. "
                f"Answers: {codes}.</p>{table}"
            )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<title>whispertide: HTTP interface</title><link rel=stylesheet href=/docs.css>"
        "<h1>whispertide: HTTP interface</h1><p>For programs: <a href=/openapi.json>/openapi.json</a>. "
        "Live sessions use WebSockets at <code>/ws</code>.</p>" + "".join(parts)
    )


def _kind(field: dict[str, Any]) -> str:
    return ", ".join(field["enum"]) if "enum" in field else str(field.get("format", field["type"]))


PAGE = page(document(""))
