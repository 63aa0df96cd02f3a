"""What the scenarios with a model that knows its words have in common: several sessions at once, one line."""

import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from campaign.difference import Difference
from campaign.lines import Line
from campaign.model import RECIPES, AllKnowing
from campaign.scenario import Runner, Scenario
from campaign.speaker import Speaker, Talk, make_talk
from whispertide.types import seconds
from whispertide_lab.evaluation.energy import resident_mb

TOGETHER = 8  # stories at once: a server waits more than it works
LIMIT_S = 300.0  # for one story
Story = Callable[[Speaker, Path], Coroutine[None, None, int]]  # tells how much harm was done


def model(talk: Talk, dice: random.Random) -> AllKnowing:
    """Knows these words, and takes up to some milliseconds for a round."""
    return AllKnowing(talk.words, round_s=dice.choice((0.0, 0.0, 0.003, 0.01)))


def stories(name: str, story: Story, together: int = TOGETHER) -> Runner:
    """A runner: so many stories of a seed at once, each with a folder of its own."""

    def run(seed: int) -> Line:
        line, began = Line(name, seed), time.monotonic()
        speakers = [_speaker(random.Random(f"{name} {seed} {number}")) for number in range(together)]
        folder = Path(tempfile.mkdtemp(prefix="soak-"))
        try:
            results = _together(speakers, story, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        add(line, speakers)
        problems = []
        for number, (one, result) in enumerate(zip(speakers, results, strict=True)):
            problems += [f"session {number}: {promise}" for promise in one.broken]
            if isinstance(result, BaseException):
                problems.append(f"session {number} stopped: {type(result).__name__}: {result}")
            else:
                line.harm += result
        line.problem = "; ".join(problems)
        line.wall_s = round(time.monotonic() - began, 3)
        return line

    return run


def _speaker(dice: random.Random) -> Speaker:
    return Speaker(make_talk(dice), dice, dice.choice(RECIPES))


def _together(speakers: list[Speaker], story: Story, folder: Path) -> list[int | BaseException]:
    """Each in a thread and an event loop of its own, as servers are."""

    async def timed(number: int, one: Speaker) -> int:
        async with asyncio.timeout(LIMIT_S):
            return await story(one, folder / str(number))

    with ThreadPoolExecutor(len(speakers)) as pool:
        futures = [pool.submit(asyncio.run, timed(*each)) for each in enumerate(speakers)]
    return [future.exception() or future.result() for future in futures]


def add(line: Line, speakers: list[Speaker]) -> None:
    """Their words into the line; of a session that did not come to its end only what cannot be mended any more."""
    found = sum((each.difference() for each in speakers), Difference())
    line.told = sum(each.told_of_loss for each in speakers)
    unfinished = [each for each in speakers if not each.over]
    line.lost = found.lost - sum(each.difference().lost for each in unfinished)
    line.changed, line.repeated = found.changed, found.repeated
    line.sessions = len(speakers)
    line.words = sum(len(each.talk.words) for each in speakers)
    line.events = sum(len(each.seen) for each in speakers)
    line.audio_s = round(sum(seconds(each.talk.duration) for each in speakers), 1)
    line.rss_mb = round(resident_mb(), 1)
    line.figures |= {"anew": sum(each.anew for each in speakers), "unfinished": len(unfinished)}


def scenario(name: str, about: str, unit: str, target: int, story: Story, **more: Any) -> Scenario:
    """One whose seeds share nothing; `more` may say how many stories there are `together`, and fields of it."""
    run = stories(name, story, more.pop("together", TOGETHER))
    return Scenario(name, about, unit, target, lambda _: nullcontext(run), **more)


async def speak_to(one: Speaker, at: int) -> None:
    """Up to there, and a flush or an acknowledgement now and then."""
    while pauses := [pause for pause in one.talk.pauses if one.sent < pause <= at]:
        if one.dice.random() < 0.7:
            break
        await one.speak(pauses[len(pauses) // 2])
        await one.flush()
    await one.speak(at)
    if one.dice.random() < 0.3:
        await one.acknowledge()


async def to_the_end(one: Speaker, port: int) -> None:
    """Come back, say the rest, and hear everything. Raises `BrokenPromiseError` where that is not all there was."""
    if not one.over:
        await one.say_the_rest(port)
    one.check_end()


def cuts(one: Speaker, most: int) -> list[int]:
    """Where in the audio something happens."""
    return sorted(one.dice.randrange(800, one.talk.duration) for _ in range(one.dice.randint(1, most)))
