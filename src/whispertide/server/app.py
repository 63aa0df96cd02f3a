"""The application: routes, and the checks that all of them pass. `serving` runs it.

GET  /healthz /readyz /metrics /openapi.json /docs    no key (metrics: with a key where there are keys)
GET  /v1/models, POST /v1/audio/transcriptions        OpenAI's REST interface (`rest`)
WS   /ws and the other services' addresses            one protocol each (`protocols`)
POST /v1/watch, GET and WS /watch/KEY                 captions for whoever reads along (`broadcasts`)
GET  /, /phrases/…                                    the page (`web`), and where its subtitles may be cut
"""

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPMethod
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from whispertide.formats.phrases import MODELS
from whispertide.server.access import AccessControl, Authenticator
from whispertide.server.http_error import HttpError, answer_error, answer_plain, log_refusal
from whispertide.server.hub import Hub
from whispertide.server.openapi import document, page
from whispertide.server.protocols import ROUTES
from whispertide.server.protocols.base import WireProtocol
from whispertide.server.protocols.native import NativeProtocol
from whispertide.server.rest import Rest
from whispertide.server.temporary_keys import TemporaryKeys
from whispertide.server.viewers import serve_viewer
from whispertide.server.watch_addresses import WatchAddresses
from whispertide.server.websocket import refuse, serve_websocket

_WEB = Path(__file__).parent / "web"
PROTOCOLS: Mapping[str, type[WireProtocol]] = {"/ws": NativeProtocol, **ROUTES}

# The page needs no more than its own files, its own WebSocket, and to play a file that a person opened (blob:). Older
# browsers do not take 'self' for the WebSocket, so the host that was asked for is named; `_HOST` keeps anything else
# out of the header.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; worker-src 'self'; media-src blob:; "
    "connect-src 'self'{sockets}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HOST = re.compile(r"[A-Za-z0-9.\-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_SECURE = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))

_ASK_EACH_TIME = {"cache-control": "no-cache"}

_Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(hub: Hub) -> Starlette:
    """The ASGI application around a hub; it starts and stops the hub."""
    access = AccessControl(Authenticator(hub.options.access), hub.options, floods=hub.floods)
    rest, keys = Rest(hub), TemporaryKeys(access, hub.info, hub.options.limits.stall_s)
    watching = WatchAddresses(hub)
    description = document(hub.info.version, keyed=not access.authenticator.is_open)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await hub.start()
        yield
        await hub.stop()

    routes: list[BaseRoute] = [
        Route("/healthz", _health),
        Route("/readyz", partial(_ready, hub)),
        Route("/metrics", _guard(access, partial(_metrics, hub))),
        Route("/openapi.json", partial(_the_same, JSONResponse(description))),
        Route("/docs", partial(_the_same, HTMLResponse(page(description)))),
        Route("/v3/token", _guard(access, keys.token)),
        *(
            WebSocketRoute(path, partial(serve_websocket, hub=hub, access=access, protocol=protocol))
            for path, protocol in PROTOCOLS.items()
        ),
        # But for `/`, which is the page as well.
        *(Route(path, _only_websockets, methods=[*HTTPMethod]) for path in PROTOCOLS if path != "/"),
        Route("/watch/{key}", _watch_page),
        WebSocketRoute("/watch/{key}", partial(serve_viewer, hub=hub, access=access)),
    ]
    # Before the files of the page, which know no WebSockets and would fail.
    routes.append(WebSocketRoute("/{path:path}", _nothing_here))
    # Mounted, so that another method is refused here and is not taken for a file of the page.
    routes.append(Mount("/v1", routes=[*_openai(access, rest, keys), *_watch(access, watching)]))
    if _WEB.is_dir():
        routes.append(Mount("/phrases", _Files(directory=MODELS)))
        routes.append(Mount("/", _Files(directory=_WEB, html=True)))
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(_Headers), Middleware(_OneLength), _pages(hub.options.access.origins)],
        exception_handlers={HttpError: answer_error, HTTPException: answer_plain},
    )


def _pages(origins: Sequence[str]) -> Middleware:
    """Allow pages from these origins to send requests and read the answers (CORS)."""
    return Middleware(
        CORSMiddleware,
        allow_origins=[origin.rstrip("/").lower() for origin in origins],
        allow_methods=["GET", "POST"],
        allow_headers=["*"],  # OpenAI's client in a browser sends many of its own
        expose_headers=["x-whispertide-model", "x-whispertide-warning"],
    )


def _openai(access: AccessControl, rest: Rest, keys: TemporaryKeys) -> list[Route]:
    return [
        Route("/models", _guard(access, rest.models)),
        Route("/models/{model:path}", _guard(access, rest.models)),
        Route("/audio/transcriptions", _guard(access, partial(rest.transcription, "transcribe")), methods=["POST"]),
        Route("/audio/translations", _guard(access, partial(rest.transcription, "translate")), methods=["POST"]),
        Route("/realtime/client_secrets", _guard(access, keys.client_secrets), methods=["POST"]),
        Route("/realtime/transcription_sessions", _guard(access, keys.transcription_sessions), methods=["POST"]),
    ]


def _watch(access: AccessControl, watching: WatchAddresses) -> list[Route]:
    return [
        Route("/watch", _guard(access, watching.open), methods=["POST"]),
        Route("/watch/end", _guard(access, watching.end), methods=["POST"]),
    ]


def _guard(access: AccessControl, endpoint: _Endpoint) -> _Endpoint:
    async def guarded(request: Request) -> Response:
        address = request.client.host if request.client else ""
        try:
            async with access.late.delay():
                admitted = access.check(dict(request.headers), dict(request.query_params), (), address)
        except HttpError as error:
            log_refusal(error, address, "http")
            raise
        request.state.owner = admitted.owner
        return await endpoint(request)

    return guarded


async def _the_same(response: Response, _: Request) -> Response:
    return response


async def _watch_page(_: Request) -> Response:
    """The page for every address, also for one where nothing is yet."""
    return FileResponse(_WEB / "watch.html", headers=_ASK_EACH_TIME)


async def _only_websockets(request: Request) -> Response:
    """Tell a request without an upgrade, for instance of a person who tries the address."""
    path = request.url.path
    message = (
        f"expected a WebSocket at {path}; got {request.method} without an upgrade, which a proxy may have dropped. "
        f"Connect with a client of WebSockets (ws://HOST:PORT{path}); send files to /v1/audio/transcriptions"
    )
    # RFC 9110, section 7.8: what stands in Upgrade is named in Connection as well.
    raise HttpError(426, message, {"upgrade": "websocket", "connection": "upgrade"})


async def _nothing_here(websocket: WebSocket) -> None:
    error = HttpError(404, f"expected a path among {', '.join(PROTOCOLS)}; got another", code="path")
    await refuse(websocket, error, "none")


async def _health(_: Request) -> Response:
    """Answer that the process is alive."""
    return JSONResponse({"status": "ok"})


async def _ready(hub: Hub, _: Request) -> Response:
    """Answer whether new sessions are welcome."""
    reasons = {
        "draining": hub.draining,
        "journal cannot be written": _journal_fails(hub),
        "stalled": hub.stalled,
        "full": hub.places.full,
        "overloaded": hub.overloaded,
    }
    for reason, holds in reasons.items():
        if holds:
            return JSONResponse({"status": reason}, 503)
    return JSONResponse({"status": "ready"})


async def _metrics(hub: Hub, _: Request) -> Response:
    hub.metrics.journal_failing.set(_journal_fails(hub))
    hub.metrics.viewers.set(hub.broadcasts.viewers)
    hub.measure_waiting()
    return Response(hub.metrics.render(), media_type=hub.metrics.content_type)


def _journal_fails(hub: Hub) -> bool:
    return hub.journal is not None and hub.journal.failing


class _Files(StaticFiles):
    """The page's files. Browsers ask each time whether there are newer ones (mostly a 304), so parts of two versions
    never meet.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Answer with the file. Raises 404 where none is, also for a method that no file has."""
        if scope["method"] not in ("GET", "HEAD"):
            await super().get_response(path, {**scope, "method": "GET"})
        return await super().get_response(path, scope)

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(_ASK_EACH_TIME)
        return response


class _Headers:
    """Puts the security headers on every answer by HTTP."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                policy = (b"content-security-policy", _policy(dict(scope["headers"]).get(b"host", b"")))
                message = {**message, "headers": [*message.get("headers", ()), *_SECURE, policy]}
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class _OneLength:
    """Refuses a request whose body has two lengths (RFC 9112, section 6.1): a proxy may have taken the other one, and
    what follows for the next request. The connection is closed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope.get("headers", ())}
        old = scope.get("http_version") == "1.0"  # which knows no chunks
        if scope["type"] != "http" or b"transfer-encoding" not in names or not (b"content-length" in names or old):
            await self.app(scope, receive, send)
            return
        message = "expected Content-Length or Transfer-Encoding; got both, or the latter in HTTP/1.0"
        refused = HttpError(400, message, {"connection": "close"})
        await JSONResponse(refused.body, refused.status, refused.headers)(scope, receive, send)


def _policy(host: bytes) -> bytes:
    # Every byte is a character there, so this cannot fail.
    name = host.decode("latin-1")
    sockets = f" ws://{name} wss://{name}" if _HOST.fullmatch(name) else ""
    return _POLICY.format(sockets=sockets).encode()
