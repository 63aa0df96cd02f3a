"""The HTTP interface of broadcasts, for whoever speaks: make an address to watch, and end it.

POST /v1/watch      {"session"?, "secret"?, "page"?, "names"?} -> {"secret", "key", "path", "url"?, "qr"?}
POST /v1/watch/end  {"secret"} -> {"ended"}
"""

from io import BytesIO
from typing import Any
from urllib.parse import urljoin, urlsplit

import segno
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from whispertide.options import MOST_SPEAKERS
from whispertide.server.bodies import read_object
from whispertide.server.http_error import HttpError
from whispertide.server.hub import Hub

_BODY = 2**13
_PAGE = 500  # characters of a page's address
_NAME = 40  # of a voice's name


class WatchAddresses:
    """The endpoints. They expect that the caller was admitted, and may do what their API key owns."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def open(self, request: Request) -> Response:
        """`POST /v1/watch`."""
        if not self._hub.options.limits.viewers:
            raise HttpError(403, "expected a server that lets others watch; this one was started with --max-viewers 0")
        asked = await read_object(request, _BODY, self._hub.options.limits.stall_s)
        session, secret, page = (_text(asked, name) for name in ("session", "secret", "page"))
        names = _names(asked)
        owner, broadcasts = request.state.owner, self._hub.broadcasts
        live = None if session is None else self._hub.sessions.get(session)
        if session is not None and (live is None or live.owner != owner):
            raise HttpError(404, "expected the id of an open session of this API key; got another")
        if page is not None and not _is_address(page):
            raise HttpError(400, f"expected page: the address of a page, of at most {_PAGE} characters")
        try:
            secret, broadcast = broadcasts.open(owner, secret)
        except ValueError as error:
            raise HttpError(400, str(error)) from error
        if live is not None:
            broadcasts.attach(broadcast, live.id, live.session.options.language)
            live.observers.add(live, "broadcast", lambda: broadcasts)
        if names is not None:
            broadcasts.name(broadcast, names)
        path = f"watch/{broadcast.key}"
        answer = {"secret": secret, "key": broadcast.key, "path": path}
        if page is not None:
            url = urljoin(page, path)
            answer |= {"url": url, "qr": _qr_code(url)}
        return JSONResponse(answer)

    async def end(self, request: Request) -> Response:
        """`POST /v1/watch/end`."""
        asked = await read_object(request, _BODY, self._hub.options.limits.stall_s)
        secret = _text(asked, "secret")
        if secret is None:
            raise HttpError(400, "expected secret: the one that the address was made with")
        return JSONResponse({"ended": self._hub.broadcasts.revoke(request.state.owner, secret)})


def _text(asked: dict[str, Any], name: str) -> str | None:
    value = asked.get(name)
    if value is not None and not isinstance(value, str):
        raise HttpError(400, f"expected {name} to be a string; got another value")
    return value


def _names(asked: dict[str, Any]) -> dict[int, str] | None:
    """The names of voices, by their numbers; None: nothing is said of them."""
    if (names := asked.get("names")) is None:
        return None
    numbers = {str(number) for number in range(1, MOST_SPEAKERS + 1)}
    if not isinstance(names, dict) or not all(
        number in numbers and isinstance(name, str) and len(name) <= _NAME for number, name in names.items()
    ):
        raise HttpError(
            400,
            f"expected names: an object of voices' numbers, 1 to {MOST_SPEAKERS}, and their names of at most {_NAME} "
            "characters; got another value",
        )
    return {int(number): " ".join(name.split()) for number, name in names.items()}


def _is_address(page: str) -> bool:
    try:
        parts = urlsplit(page)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc) and len(page) <= _PAGE


def _qr_code(url: str) -> str:
    """Draw a QR code, as SVG."""
    drawn = BytesIO()
    # A quarter of it may be hidden or badly lit: it is read from the back of a hall.
    segno.make_qr(url, error="q").save(drawn, kind="svg", xmldecl=False, omitsize=True, border=4)
    return drawn.getvalue().decode()
