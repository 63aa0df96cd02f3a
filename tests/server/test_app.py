"""What the application itself answers: the page's files and what it says of the hub. No sockets, no protocols."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import httpx

from served import KnowingModel, limited
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.app import make_app
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
