"""Real processes, really killed: SIGKILL and SIGTERM at any moment, of a model that knows its words and of nano.en."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from campaign.difference import other_words
from campaign.lines import Line
from campaign.scenario import Runner, Scenario
from campaign.sessions import cuts, scenario, speak_to
from campaign.speaker import BrokenPromiseError, Speaker, Talk
from paces import lost, sentences_of
from served import text_of
from whispertide.audio.wav import pcm
from whispertide.cli.bundled import bundled_audio
from whispertide.events import Confirmed
from whispertide.types import FloatArray, join_words, seconds
from whispertide_lab.evaluation.energy import resident_mb

STARTING_S = 60.0
NANO = ("-m", "whispertide.cli.main", "serve", "--model", "nano.en", "--port", "0", "--threads", "1")


def ours(folder: Path) -> list[str]:
    """The server whose model knows the words."""
    return [sys.executable, "-m", "campaign.oracle_server", str(folder)]


def make_folder(folder: Path, talk: Talk) -> None:
    """The folder of such a server, with the words that its model knows."""
    folder.mkdir()
    words = [(word.text, word.start, word.end) for word in talk.words]
    (folder / "words.json").write_text(json.dumps(words))


@asynccontextmanager
async def process(command: Sequence[str]) -> AsyncIterator[tuple["subprocess.Popen[bytes]", int]]:
    """A server's process, and the port that it says on a line of its own or at the end of one; killed at the end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with tempfile.TemporaryFile() as output:
        running = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            yield running, await _port(running, output.fileno())
        finally:
            running.kill()
            await asyncio.to_thread(running.wait)


async def _port(running: "subprocess.Popen[bytes]", output: int) -> int:
    for _ in range(round(STARTING_S / 0.02)):
        for line in os.pread(output, 100_000, 0).decode(errors="replace").splitlines():
            if line.isdigit():
                return int(line)
            if line.startswith("serving "):
                return int(line.rsplit(":", 1)[1].split("/")[0].split()[0])
        if running.poll() is not None:
            break
        await asyncio.sleep(0.02)
    raise RuntimeError(f"the server did not start: {os.pread(output, 2000, 0).decode(errors='replace')}")


async def killed(one: Speaker, folder: Path) -> int:
    """Up to three kills or restarts in good order of a session's server."""
    make_folder(folder, one.talk)
    return await _through(one, ours(folder), cuts(one, 3))


async def _through(one: Speaker, command: Sequence[str], where: Sequence[int]) -> int:
    for cut in where:
        async with process(command) as (running, port):
            await one.connect(port)
            await (one.speak(cut) if one.pcm else speak_to(one, cut))
            await asyncio.sleep(one.dice.uniform(0, 0.2))
            running.send_signal(one.dice.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
            await one.closed()
            await asyncio.to_thread(running.wait, 30)
    async with process(command) as (_, port):
        await one.say_the_rest(port)
    one.check_end()
    return len(where)


@contextmanager
def nano(_: Path) -> Iterator[Runner]:
    """nano.en hears the bundled recording over up to two kills; what an undisturbed session heard is the truth."""
    audio = bundled_audio()
    undisturbed = asyncio.run(_nano_session(_listener("undisturbed", audio), 0))

    def run(seed: int) -> Line:
        began = time.monotonic()
        one = _listener(f"nano {seed}", audio)
        line = Line("kills-nano", seed, round(seconds(len(audio)), 1), sessions=1)
        try:
            text = asyncio.run(_nano_session(one, 2))
        except (BrokenPromiseError, RuntimeError, TimeoutError) as error:
            line.problem = f"{type(error).__name__}: {error}"
            return line
        line.harm, line.events = 2, len(one.seen)
        missing = lost(sentences_of(undisturbed), text)
        line.problem = "; ".join([*one.broken, *(f"not heard: {each}" for each in missing)])
        truth = undisturbed.split()
        line.words = len(truth)
        line.figures["other_words"] = other_words(truth, text.split())
        line.figures["words_heard"] = len(text_of(one.seen))
        line.rss_mb = round(resident_mb(), 1)
        line.wall_s = round(time.monotonic() - began, 1)
        return line

    yield run


def _listener(name: str, audio: FloatArray) -> Speaker:
    return Speaker(Talk((), len(audio)), random.Random(name), "tide", pcm(audio), pause_s=0.005)


async def _nano_session(one: Speaker, kills: int) -> str:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        command = [sys.executable, *NANO, "--journal", folder]
        where = sorted(one.dice.randrange(16_000, one.talk.duration) for _ in range(kills))
        await _through(one, command, where)
    return join_words([word for event in one.seen if isinstance(event, Confirmed) for word in event.words])


PROCESSES = scenario(
    "kills-process",
    "a real process gets SIGKILL (or SIGTERM, one time in three), up to three times in a session",
    "kills",
    100,
    killed,
    together=2,
)
NANO_KILLS = Scenario(
    "kills-nano",
    "`whispertide serve` with nano.en and `tide` gets them twice within the bundled recording",
    "kills",
    100,
    nano,
    exact=False,
)
