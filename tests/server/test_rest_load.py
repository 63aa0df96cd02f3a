"""OpenAI's REST interface where there is no room or no time: places, disks, slow clients, the end."""

import asyncio
import errno
import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from rest_client import events_in, post, rest
from served import OfflineModel, limited, logged_errors, served, wav, web_client
from slow_rows import slow_but
from whispertide.server.transcription_answers import render
from whispertide.types import OfflineSegment


class Held(OfflineModel):
    """Begins with a file, and goes on when it may."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def transcribe_segments(self, audio: Any, **settings: Any) -> Iterator[OfflineSegment]:
        self.begun.set()
        assert self.go.wait(60)
        yield from super().transcribe_segments(audio, **settings)


async def test_more_files_than_there_is_room_for() -> None:
    model = Held()
    async with rest(limited(offline=1), model) as client:
        first = asyncio.create_task(post(client, wav(4)))
        assert await asyncio.to_thread(model.begun.wait, 60)
        others = [await post(client, wav(1), stream=stream) for stream in ("false", "true")]
        model.go.set()
        assert [other.status_code for other in others] == [429, 429]
        assert all(other.headers["retry-after"] for other in others)
        assert (await first).status_code == 200


async def test_a_file_that_finds_no_place_when_it_is_there_was_refused() -> None:
    """There was room for it when it began to come."""
    model = Held()
    form = httpx.Request("POST", "http://x", files={"file": ("a.wav", wav(1))})
    content = form.read()
    async with served(limited(offline=1, stall_s=60), model) as (server, hub):
        rest_of_it = asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield content[:100]
            await rest_of_it.wait()
            yield content[100:]

        async with web_client(server) as client:
            headers = {"content-type": form.headers["content-type"]}
            second = client.post("/v1/audio/transcriptions", content=slowly(), headers=headers)
            refused = asyncio.create_task(second)
            async with asyncio.timeout(60):
                while not hub.files:
                    await asyncio.sleep(0.01)
            first = asyncio.create_task(post(client, wav(1)))
            assert await asyncio.to_thread(model.begun.wait, 60)
            rest_of_it.set()
            assert (await refused).status_code == 429
            model.go.set()
            assert (await first).status_code == 200
        outcomes = {
            sample.labels["outcome"]: sample.value
            for metric in hub.metrics.uploads.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        }
        assert outcomes == {"refused": 1, "done": 1}


@pytest.mark.slow
async def test_a_file_whose_client_has_left_is_not_transcribed() -> None:
    """Three long files that nobody waits for any more must not make an honest one wait."""
    model = OfflineModel(delay_s=0.5)
    async with served(limited(offline=4), model) as (server, _):
        for stream in ("false", "true"):
            async with web_client(server) as client:
                model.offline.offline_options.clear()
                left = [asyncio.create_task(post(client, wav(100), stream=stream)) for _ in range(3)]
                while not model.offline.offline_options:  # one of them is being transcribed
                    await asyncio.sleep(0.05)
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)
            async with web_client(server) as client:
                async with asyncio.timeout(60):  # the three take 75 s
                    # On a busy machine the server learns only after a moment that they have left.
                    while (answer := await post(client, wav(2))).status_code == 429:
                        await asyncio.sleep(0.1)
                assert answer.status_code == 200


async def test_a_full_disk_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with rest() as client:
        with monkeypatch.context() as patch:
            patch.setattr("starlette.datastructures.UploadFile.write", full)
            answer = await post(client, wav(1))
            assert (answer.status_code, answer.headers["retry-after"]) == (507, "60")
        assert (await post(client, wav(1))).status_code == 200


async def test_slow_requests_are_cut_off() -> None:
    async with served(limited(stall_s=0.3), OfflineModel()) as (server, _):
        for head in (
            b"GET / HTTP/1.1\r\n",
            b"",
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n--x",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(head)
            async with asyncio.timeout(60):
                answer = await reader.read()
            assert answer == b"" or b" 408 " in answer
            writer.close()


async def test_a_server_whose_places_are_all_taken_is_not_ready() -> None:
    async with (
        rest(limited(sessions=1)) as client,
        connect(f"{client.base_url}".replace("http", "ws") + "/ws", proxy=None) as one,
    ):
        await one.send(bytes(3200))
        assert json.loads(await one.recv())["type"] == "hello"
        assert json.loads(await one.recv())["type"] == "session"
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "full"})


async def lines_of(client: httpx.AsyncClient, data: bytes, begun: asyncio.Event) -> list[str]:
    """The lines of a streamed transcription; `begun` is set with the first."""
    lines, files = [], {"file": ("a.wav", data)}
    async with client.stream("POST", "/v1/audio/transcriptions", files=files, data={"stream": "true"}) as answer:
        async for line in answer.aiter_lines():
            lines.append(line)
            begun.set()
    return lines


@pytest.mark.parametrize("drain_s", slow_but([30.0, 0.2], 0.2))
def test_the_end_waits_for_files_and_then_says_so(drain_s: float) -> None:
    """One is streamed, one waits and one is still coming. Nothing is logged as an error."""
    model = OfflineModel(delay_s=1.0)  # so slow that all three are there before one is done, on any machine
    form = b"--x\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n" + wav(2) + b"\r\n--x--\r\n"
    head = (
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: " + str(len(form)).encode() + b"\r\n\r\n"
    )

    async def body() -> None:
        async with served(replace(limited(stall_s=120), drain_s=drain_s), model) as (server, hub):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            async with web_client(server) as client:
                writer.write(head + form[:1000])
                begun = asyncio.Event()
                streamed = asyncio.create_task(lines_of(client, wav(40), begun))
                await begun.wait()
                waiting = asyncio.create_task(post(client, wav(4)))
                async with asyncio.timeout(60):
                    while hub.files < 3:
                        await asyncio.sleep(0.01)
                model.offline.delay_s = 0.1
                server.should_exit = True
                if drain_s > 1:
                    writer.write(form[1000:])
                last, waited = events_in(await streamed)[-1], await waiting
                coming = await reader.read()
            writer.close()
        if drain_s > 1:
            assert last["type"] == "transcript.text.done"
            assert waited.status_code == 200
            assert coming.startswith(b"HTTP/1.1 200 ")
        else:
            assert (last["type"], last["error"]["type"]) == ("error", "server_error")
            assert (waited.status_code, waited.headers["retry-after"]) == (503, "5")
            assert "stopping" in waited.json()["error"]["message"]
            assert coming.startswith(b"HTTP/1.1 503 ")

    with logged_errors() as errors:
        asyncio.run(body())
    assert not errors


@pytest.mark.parametrize("format_", ["srt", "json"])
async def test_others_are_served_while_an_answer_is_written(format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaking two hours of words into subtitles takes seconds."""
    written = threading.Event()

    def slow(*arguments: Any) -> Any:
        assert written.wait(30)
        return render(*arguments)

    monkeypatch.setattr("whispertide.server.rest.render", slow)
    async with rest() as client:
        answer = asyncio.create_task(post(client, wav(3), response_format=format_))
        assert (await client.get("/healthz", timeout=20)).status_code == 200
        await asyncio.sleep(0.3)
        assert (await client.get("/healthz", timeout=20)).status_code == 200
        written.set()
        assert "word0" in (await answer).text
