"""Servers that die: copies of their journals, taken at any moment, are what the next one finds."""

import asyncio
from pathlib import Path

from campaign.life import Life, life
from campaign.sessions import cuts, model, scenario, speak_to, to_the_end
from campaign.speaker import Speaker


async def kills(one: Speaker, folder: Path) -> int:
    """A session over several lives of its server; a kill may follow the end of the audio."""
    heard_by = model(one.talk, one.dice)
    count = 0
    for cut in [*cuts(one, 4), *([one.talk.duration] if one.dice.random() < 0.2 else [])]:
        async with life(heard_by, folder / str(count)) as server:
            await one.connect(server.port)
            await speak_to(one, cut)
            if cut == one.talk.duration:
                await one.finish()
            await asyncio.sleep(one.dice.choice((0.0, one.dice.uniform(0, 0.05))))
            count += 1
            await die(one, server, folder / str(count))
    async with life(heard_by, folder / str(count)) as server:
        await to_the_end(one, server.port)
    return count


async def die(one: Speaker, server: Life, left: Path) -> None:
    """Kill the server. What the client read after that was never sent."""
    seq, told = len(one.seen) - 1, one.told
    server.kill(left)
    await one.abort()
    one.forget_after(seq, told)


KILLS = scenario(
    "kills",
    "the server dies between any two statements of its journal, up to five times in a session",
    "kills",
    10_000,
    kills,
    share=2.0,
)
