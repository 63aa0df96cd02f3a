"""Servers that are told to stop: with a journal sessions go on in mid-word, without one they end with every word."""

import asyncio
from pathlib import Path

from campaign.life import life
from campaign.sessions import cuts, model, scenario, speak_to, to_the_end
from campaign.speaker import BrokenPromiseError, Speaker, Talk

SHUTDOWN = 1012


async def drains(one: Speaker, folder: Path) -> int:
    """Up to four restarts in good order, wherever in the audio."""
    heard_by = model(one.talk, one.dice)
    if one.dice.random() < 0.25:
        return await last_drain(one)
    where = cuts(one, 4)
    for cut in where:
        async with life(heard_by, folder) as server:
            await one.connect(server.port)
            await speak_to(one, cut)
            await asyncio.sleep(one.dice.choice((0.0, one.dice.uniform(0, 0.05))))
            server.server.should_exit = True
            await expect_shutdown(one)
    async with life(heard_by, folder) as server:
        await to_the_end(one, server.port)
    return len(where)


async def last_drain(one: Speaker) -> int:
    """Without a journal: the session ends between two words, and all up to there is confirmed."""
    cut = one.dice.choice(one.talk.pauses)
    async with life(model(one.talk, one.dice)) as server:
        await one.connect(server.port)
        await one.speak(cut)
        while one.told < cut:
            await asyncio.sleep(0.005)
            if one.sent - one.told < 16_000:  # less than a second is told only with an event
                await asyncio.sleep(0.1)
                break
        server.server.should_exit = True
        await one.closed()
    one.talk = Talk(tuple(word for word in one.talk.words if word.end <= cut), cut)
    one.check_end()
    return 1


async def expect_shutdown(one: Speaker) -> None:
    """The connection ends with the close code that says so."""
    code = await one.closed()
    if code != SHUTDOWN:
        raise BrokenPromiseError(f"expected close code {SHUTDOWN} when the server stops; got {code}")


DRAINS = scenario(
    "drains",
    "the server is told to stop, up to four times in a session with a journal, once without one",
    "drains",
    10_000,
    drains,
)
