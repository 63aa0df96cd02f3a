"""WhisperLiveKit's server next to ours: nano.en on both, the bundled recording in real time, the same harm.

    outage       nothing comes for five seconds, then what was said meanwhile in ten times the pace
    disconnect   the connection breaks in mid-word; a second later the client is back with what was said meanwhile

WhisperLiveKit has no way to come back: its client opens another session and goes on with the audio that it had not
sent. Of the first session it keeps all that was on its screen, guesses included, which is the best that it can do. Ours
resumes, and keeps what was confirmed. What each server makes of the recording undisturbed is its own truth; where the
harm is nothing, the figure is what two undisturbed runs differ by.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from contenders import Contender, livekit, ours, started
from paced_sessions import BLOCK, PATIENCE_S, SETTINGS
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from campaign.difference import other_words
from campaign.lines import Line
from campaign.scenario import Runner, Scenario
from whispertide.audio import wav
from whispertide.cli.bundled import bundled_audio
from whispertide.types import SAMPLE_RATE, seconds
from whispertide_lab.speech.manifest import bare_word

SERVERS = ("whispertide", "localagreement", "simulstreaming")
HARMS = ("nothing", "outage", "disconnect")
GAP_S = {"nothing": 0.0, "outage": 5.0, "disconnect": 1.0}
PACE = 10


class Screen:
    """What one client has seen: `kept` of earlier connections, `shown` on this one."""

    def __init__(self, pcm: bytes, name: str) -> None:
        self.pcm = pcm
        self.ours = name == "whispertide"
        self.kept: list[str] = []
        self.shown: list[str] = []
        self.session, self.received, self.seq = "", 0, -1

    def take(self, message: dict[str, Any]) -> bool:
        """A message of the server; whether it is the last."""
        if self.ours:
            return self._take_ours(message)
        texts = [line.get("text") or "" for line in message.get("lines", ())]
        texts.append(message.get("buffer_transcription") or "")
        if "lines" in message:
            self.shown = [word for word in map(bare_word, " ".join(texts).split()) if word]
        return message.get("type") == "ready_to_stop"

    def _take_ours(self, message: dict[str, Any]) -> bool:
        self.seq = max(self.seq, message.get("seq", -1) if "at" in message else -1)
        match message["type"]:
            case "session":
                self.session, self.received = message["session"], message["received"]
            case "confirmed":
                self.shown += [word for word in (bare_word(each["text"]) for each in message["words"]) if word]
            case "end":
                return True
        return False

    def path(self) -> str:
        """Where the next connection goes."""
        back = f"?session={self.session}&last_seq={self.seq}" if self.session else ""
        return f"/ws{back}" if self.ours else "/asr"

    def broken(self) -> None:
        """The connection is gone."""
        if not self.ours:
            self.kept, self.shown = self.kept + self.shown, []


def due(at_s: float, cut_s: float, gap_s: float) -> float:
    """When the audio that is spoken up to this second is sent."""
    return at_s if at_s < cut_s else max(at_s, cut_s + gap_s + (at_s - cut_s) / PACE)


async def listen(port: int, screen: Screen, harm: str, cut_s: float) -> list[str]:
    """Hear the recording; returns all that was on the screen at the end."""
    began, sent = time.perf_counter(), 0
    cut = round(cut_s * SAMPLE_RATE) if harm == "disconnect" else len(screen.pcm)
    for stop in (cut, len(screen.pcm)):
        back, screen.received = bool(screen.session), -1
        async with connect(f"ws://127.0.0.1:{port}{screen.path()}", **SETTINGS) as socket:
            reading = asyncio.create_task(_read(socket, screen))
            if back:
                sent = await _resumed(screen)
            while sent < min(stop, len(screen.pcm) // 2):
                wait = began + due(seconds(sent + BLOCK), cut_s, GAP_S[harm]) - time.perf_counter()
                await asyncio.sleep(max(0.0, wait))
                await socket.send(screen.pcm[2 * sent : 2 * (sent + BLOCK)])
                sent += BLOCK
            if stop == cut and harm == "disconnect":
                socket.transport.abort()
                await reading
                screen.broken()
                await asyncio.sleep(GAP_S[harm])
                continue
            await socket.send('{"type":"finish"}' if screen.ours else b"")
            await asyncio.wait_for(reading, PATIENCE_S)
            break
    return screen.kept + screen.shown


async def _resumed(screen: Screen) -> int:
    """Where to go on sending from, as the server says."""
    async with asyncio.timeout(PATIENCE_S):
        while screen.received < 0:
            await asyncio.sleep(0.01)
    return screen.received


async def _read(socket: ClientConnection, screen: Screen) -> None:
    with suppress(ConnectionClosed):
        async for message in socket:
            if screen.take(json.loads(message)):
                return


@contextmanager
def compare(_: Path) -> Iterator[Runner]:
    """A seed is one recording, to the servers and with the kinds of harm in turn."""
    pcm = wav.pcm(bundled_audio())
    truths: dict[str, list[str]] = {}

    def run(seed: int) -> Line:
        name, harm = SERVERS[seed % len(SERVERS)], HARMS[seed // len(SERVERS) % len(HARMS)]
        line, began = Line("livekit", seed, len(pcm) / 2 / SAMPLE_RATE, 1, harm=1), time.monotonic()
        line.figures = {"server": name, "harm": harm}
        cut_s = random.Random(f"livekit {seed // len(SERVERS)}").uniform(8, 30)  # the same for all servers
        with tempfile.TemporaryDirectory() as links:
            contender = contender_called(name, Path(links))
            if isinstance(contender, str):
                line.figures["reason"] = contender
                return line
            with started(contender) as port:
                if name not in truths:
                    truths[name] = asyncio.run(listen(port, Screen(pcm, name), "nothing", 10**6))
                try:
                    heard = asyncio.run(listen(port, Screen(pcm, name), harm, cut_s))
                except (TimeoutError, OSError, ConnectionClosed) as error:
                    line.problem = f"{name}: {type(error).__name__}: {error}"
                    return line
        line.words = len(truths[name])
        line.figures |= {"missing": other_words(truths[name], heard), "heard": len(heard)}
        line.wall_s = round(time.monotonic() - began, 1)
        return line

    yield run


def contender_called(name: str, links: Path) -> Contender | str:
    """A server, or why there is none."""
    settings = {"model": "nano.en", "precision": "int8", "threads": 1, "workers": 0, "recipe": "", "set": []}
    arguments = argparse.Namespace(**settings, degrade=False)
    return ours(arguments, "", "none") if name == "whispertide" else livekit(arguments, name, links)


def missing() -> str:
    """Why WhisperLiveKit cannot be started."""
    from whispertide_lab.evaluation.peers.registry import PEERS
    from whispertide_lab.evaluation.peers.running import why_not

    reasons = (why_not(PEERS[f"whisperlivekit-{name}"]) for name in SERVERS if name != "whispertide")
    return next((reason for reason in reasons if reason), "")


LIVEKIT = Scenario(
    "livekit",
    "nano.en on WhisperLiveKit's server and on ours in real time: an outage of 5 s, or a broken connection",
    "recordings",
    60,
    compare,
    exact=False,
    missing=missing,
)
