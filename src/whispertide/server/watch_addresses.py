"""The HTTP interface of broadcasts, for whoever speaks: make an address to watch, and end it.

POST /v1/watch      {"session"?, "secret"?, "page"?, "names"?} -> {"secret", "key", "path", "url"?, "qr"?}
POST /v1/watch/end  {"secret"} -> {"ended"}

`session` is the id of a session, or a list of ids: those of a speaker's channels, in their order.
"""

from io import BytesIO
from typing import Any
from urllib.parse import urljoin, urlsplit

import segno
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from whispertide.options import MOST_CHANNELS, MOST_SPEAKERS
from whispertide.server.bodies import read_object
from whispertide.server.http_error import HttpError
from whispertide.server.hub import Hub
from whispertide.server.live import LiveSession

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
        secret, page, names = _text(asked, "secret"), _text(asked, "page"), _names(asked)
        owner, broadcasts = request.state.owner, self._hub.broadcasts
        sessions = self._sessions(asked, owner)
        if page is not None and not _is_address(page):
            raise HttpError(400, f"expected page: the address of a page, of at most {_PAGE} characters")
        try:
            secret, broadcast = broadcasts.open(owner, secret)
        except ValueError as error:
            raise HttpError(400, str(error)) from error
        if sessions:
            broadcasts.attach(broadcast, [live.id for live in sessions], sessions[0].session.options.language)
        for live in sessions:
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

    def _sessions(self, asked: dict[str, Any], owner: str) -> list[LiveSession]:
        """The sessions that are asked for: none, one, or one for each channel. Raises `HttpError`."""
        wanted = asked.get("session")
        ids = wanted if isinstance(wanted, list) else [] if wanted is None else [wanted]
        if not all(isinstance(one, str) for one in ids):
            raise HttpError(400, "expected session to be a string, or a list of strings; got another value")
        if isinstance(wanted, list) and not 2 <= len(set(ids)) == len(ids) <= MOST_CHANNELS:
            raise HttpError(
                400, f"expected session to be an id, or 2 to {MOST_CHANNELS} different ones in a list; got {len(ids)}"
            )
        found = [live for one in ids if (live := self._hub.sessions.get(one)) is not None and live.owner == owner]
        if len(found) < len(ids):
            raise HttpError(404, "expected the id of an open session of this API key; got another")
        return found


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
