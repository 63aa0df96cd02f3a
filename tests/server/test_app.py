"""What the application itself answers: the page's files and what it says of the hub. No sockets, no protocols."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from served import KnowingModel, limited
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.app import PROTOCOLS, make_app
from whispertide.server.hub import Hub


def ask(body: Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]], journal: Any = None) -> None:
    """Straight into the application of a hub with this journal."""
    models: Any = {"nano.en": KnowingModel()}
    hub = Hub(models, get_recipe("whisper-streaming"), limited(), journal=journal)

    async def run() -> None:
        transport = httpx.ASGITransport(make_app(hub))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await body(client)

    asyncio.run(run())


def test_a_browser_asks_whether_the_page_is_still_the_same() -> None:
    async def body(client: httpx.AsyncClient) -> None:
        for path in ("/", "/main.js"):
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
            again = await client.get(path, headers={"if-none-match": answer.headers["etag"]})
            assert (again.status_code, again.headers["cache-control"]) == (304, "no-cache")

    ask(body)


def test_a_journal_that_cannot_be_written_is_at_metrics() -> None:
    journal: Any = SimpleNamespace(failing=False)

    async def body(client: httpx.AsyncClient) -> None:
        assert "whispertide_journal_failing 0.0" in (await client.get("/metrics")).text
        journal.failing = True
        assert "whispertide_journal_failing 1.0" in (await client.get("/metrics")).text
        assert (await client.get("/readyz")).json()["status"] == "journal cannot be written"

    ask(body, journal)


@pytest.mark.parametrize("path", [path for path in PROTOCOLS if path != "/"])
def test_a_request_without_an_upgrade_is_told_that_this_is_a_websocket(path: str) -> None:
    """RFC 9110, section 15.5.22: the answer names the protocol in `Upgrade`."""

    async def body(client: httpx.AsyncClient) -> None:
        for method in ("GET", "POST"):
            answer = await client.request(method, path)
            assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")
            told = answer.json()["error"]["message"]
            assert f"expected a WebSocket at {path}; got {method}" in told
            assert "/v1/audio/transcriptions" in told

    ask(body)


def test_a_websocket_is_at_no_other_place() -> None:
    async def body(client: httpx.AsyncClient) -> None:
        assert (await client.get("/")).status_code == 200  # the page, next to WhisperLive's WebSocket
        assert (await client.get("/ws/")).status_code == 404

    ask(body)
