"""Journals on bad disks: full, slow, read-only, corrupt; and a wall clock that jumps."""

import asyncio
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from campaign.disconnects import disconnects
from campaign.kills import die, kills
from campaign.life import life
from campaign.scenario import Runner, Scenario
from campaign.sessions import cuts, model, scenario, speak_to, stories, to_the_end
from campaign.speaker import GONE, BrokenPromiseError, Speaker
from whispertide.errors import OptionError

BENT_S = 3600.0


async def faults(one: Speaker, folder: Path) -> int:
    """The disk fails for a moment up to four times in a session; one time in three the server dies while it does."""
    heard_by = model(one.talk, one.dice)
    where = cuts(one, 4)
    lives = 0
    while where:
        async with life(heard_by, folder / str(lives)) as server:
            assert server.disk is not None
            await one.connect(server.port)
            while where:
                await speak_to(one, where.pop(0))
                server.disk.fail(one.dice.choice(("full", "read-only", "slow")))
                await speak_to(one, min(one.sent + one.dice.randrange(40_000), one.talk.duration))
                await asyncio.sleep(one.dice.uniform(0, 0.3))
                if one.dice.random() < 1 / 3:
                    break
                server.disk.fail("")
                await asyncio.sleep(0.25)  # until it is tried again
            lives += 1
            await die(one, server, folder / str(lives))
    async with life(heard_by, folder / str(lives)) as server:
        await to_the_end(one, server.port)
    return lives


async def corrupt(one: Speaker, folder: Path) -> int:
    """A kill, and bytes of what it left are overwritten: the next server starts with what can be read, or says that it
    cannot. The session may be gone or have lost its newest part; its client is told so, and no word is another.
    """
    heard_by = model(one.talk, one.dice)
    async with life(heard_by, folder / "0") as server:
        await one.connect(server.port)
        await speak_to(one, cuts(one, 1)[0])
        await die(one, server, folder / "1")
    overwrite(folder / "1", one.dice)
    try:
        async with life(heard_by, folder / "1") as server:
            before = list(one.seen)
            try:
                await to_the_end(one, server.port)
            except BrokenPromiseError:
                one.told_of_loss = one._code == GONE  # the client knows
            one.told_of_loss = one.told_of_loss or any("were promised" in each for each in one.broken)
            if one.told_of_loss:
                one.broken = [each for each in one.broken if "is another" in each]
                one.seen = before
    except (OptionError, sqlite3.DatabaseError):
        one.told_of_loss = True  # whoever starts the server is
    return 1


def overwrite(folder: Path, dice: random.Random) -> None:
    """Up to eight bytes here and there, in the database or its log."""
    files = [path for path in sorted(folder.glob("journal.sqlite3*")) if path.stat().st_size]
    for _ in range(dice.choice((1, 1, 2, 8))):
        path = dice.choice(files)
        with path.open("r+b") as file:
            file.seek(dice.randrange(path.stat().st_size))
            file.write(dice.randbytes(1))


@contextmanager
def bent(_: Path) -> Iterator[Runner]:
    """`time.time` jumps by up to an hour, forth and back, at every call; `time.monotonic` goes on."""
    real, dice, lock = time.time, random.Random(0), threading.Lock()

    def jumping() -> float:
        with lock:
            return real() + dice.uniform(-BENT_S, BENT_S)

    async def story(one: Speaker, folder: Path) -> int:
        return await (kills(one, folder) if one.dice.random() < 0.5 else disconnects(one, folder))

    run = stories("clock", story)
    with mock.patch("time.time", jumping):
        yield run


FAULTS = scenario(
    "journal-faults",
    "the journal's disk is full, read-only or slow for moments, and the server dies, also meanwhile",
    "kills",
    2_000,
    faults,
)
CORRUPT = scenario(
    "journal-corrupt",
    "bytes of a killed server's journal are overwritten",
    "journals",
    2_000,
    corrupt,
    share=0.5,
)
CLOCK = Scenario("clock", "kills and disconnects while the wall clock jumps by up to an hour", "kills", 1_000, bent)
