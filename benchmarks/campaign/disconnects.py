"""Connections that break anywhere, and outages after which all that was said meanwhile comes at once."""

import asyncio
from functools import partial
from pathlib import Path

from campaign.life import life
from campaign.sessions import cuts, model, scenario, speak_to, to_the_end
from campaign.speaker import Speaker
from whispertide.types import SAMPLE_RATE


async def disconnects(one: Speaker, folder: Path, *, journaled: bool = False) -> int:
    """Up to eight broken connections in a session; sometimes the next comes before the server noticed."""
    where = cuts(one, 8)
    async with life(model(one.talk, one.dice), folder if journaled else None) as server:
        for cut in where:
            await one.connect(server.port)
            await speak_to(one, cut)
            await asyncio.sleep(one.dice.choice((0.0, one.dice.uniform(0, 0.03))))
            await one.abort()
        await to_the_end(one, server.port)
    return len(where)


async def outages(one: Speaker, folder: Path) -> int:
    """Nothing comes for 3 to 8 s, then what was said meanwhile in 6 to 20 times the pace of speech; half the time the
    connection is lost as well. The audio before and after comes in portions of a tenth of a second.
    """
    where = cuts(one, 3)
    async with life(model(one.talk, one.dice), folder if one.dice.random() < 0.5 else None) as server:
        await one.connect(server.port)
        for cut in where:
            await one.speak(cut, portion=SAMPLE_RATE // 10)
            broken = one.dice.random() < 0.5
            await asyncio.sleep(one.dice.uniform(0.01, 0.05))
            if broken:
                await one.abort()
                await one.connect(server.port)
            backlog = round(one.dice.uniform(3, 8) * SAMPLE_RATE)
            pace = one.dice.randint(6, 20)  # a message every tenth of a second
            await one.speak(min(one.sent + backlog, one.talk.duration), portion=pace * SAMPLE_RATE // 10)
        await one.speak(one.talk.duration, portion=SAMPLE_RATE // 10)
        await one.finish()
        await one.closed()
    one.check_end()
    return len(where)


DISCONNECTS = scenario(
    "disconnects",
    "the connection breaks up to eight times in a session, on a server without a journal",
    "disconnects",
    10_000,
    disconnects,
)
JOURNALED = scenario(
    "disconnects-journal",
    "the same on a server with a journal",
    "disconnects",
    2_000,
    partial(disconnects, journaled=True),
)
OUTAGES = scenario(
    "outages",
    "nothing for 3 to 8 s of speech up to three times in a session, then the backlog at 6 to 20 times the pace",
    "outages",
    10_000,
    outages,
)
