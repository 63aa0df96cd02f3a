"""The link of the benchmark: what goes over it arrives whole, and no sooner than its rate and its way allow."""

import asyncio
import time

from benchmark_scripts import benchmark

with benchmark("early_upload") as early_upload:
    linked = early_upload.linked

TRIP_S, RATE = 0.2, 400_000.0
SENT = bytes(range(256)) * 80  # 20,480 bytes: 0.41 s


def test_what_is_sent_arrives_at_the_links_pace() -> None:
    async def talk() -> tuple[bytes, bytes, float]:
        got, heard_of_the_end = asyncio.Queue[bytes](), asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            got.put_nowait(await reader.readexactly(len(SENT)))
            writer.write(b"thanks")
            writer.write_eof()
            await reader.read()
            writer.close()
            await writer.wait_closed()
            heard_of_the_end.set()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        with linked(TRIP_S, RATE, server.sockets[0].getsockname()[1]) as port:
            began = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(SENT)
            reply = await reader.read()
            took = time.monotonic() - began
            writer.close()
            await writer.wait_closed()
            await asyncio.wait_for(heard_of_the_end.wait(), 60)
        server.close()
        return await got.get(), reply, took

    received, reply, took = asyncio.run(talk())
    assert (received, reply) == (SENT, b"thanks")
    assert took >= 8 * len(SENT) / RATE + 2 * TRIP_S, "opening takes a round trip, and so do question and answer"
