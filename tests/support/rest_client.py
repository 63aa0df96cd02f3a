"""A client of OpenAI's REST interface on loopback, for the tests."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from served import OfflineModel, served, web_client
from whispertide.server.options import ServerOptions


@asynccontextmanager
async def rest(
    options: ServerOptions | None = None, model: OfflineModel | dict[str, Any] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    async with served(options, model or OfflineModel()) as (server, _), web_client(server) as client:
        yield client


async def post(client: httpx.AsyncClient, data: bytes, name: str = "a.wav", **fields: Any) -> httpx.Response:
    return await client.post("/v1/audio/transcriptions", files={"file": (name, data)}, data=fields)


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """What was streamed."""
    return events_in(answer.text.splitlines())


def events_in(lines: Sequence[str]) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in lines if line]
