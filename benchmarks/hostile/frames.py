"""What hostile clients send over WebSockets and TCP: too fast, too small, too large, or nonsense."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from websockets.frames import Opcode

from hostile.assault import HOURS, SPEECH, WEBM, Assault
from hostile.wire import connection, frame, websocket

BLOCK = 3_200  # bytes: 100 ms
PORTION = 2**16  # of a file, in a message
FRAMES = 4_096  # sent at once, of the small ones
START = frame(Opcode.TEXT, b'{"type":"start"}')


@lru_cache
def speech(folder: Path) -> tuple[bytes, ...]:
    """Blocks of 100 ms, as frames."""
    data = (folder / SPEECH).read_bytes()
    return tuple(frame(Opcode.BINARY, data[at : at + BLOCK]) for at in range(0, len(data), BLOCK))


def unpaced(assault: Assault, _: int) -> None:
    """Sends a file as fast as it is taken, as many SDKs do, and reads what comes."""
    with websocket(assault) as wire:
        whole = b"".join(speech(assault.material))
        for _turn in assault.turns():
            wire.write(whole)


def unpaced_lines(assault: Assault, _: int) -> None:
    """The same over the TCP port for lines."""
    data = (assault.material / SPEECH).read_bytes()
    with connection(assault, assault.ports["lines"]) as wire:
        for _turn in assault.turns():
            wire.write(data)


@dataclass(frozen=True)
class Hurried:
    """A client that sends `pace` times faster than life."""

    pace: float

    def __call__(self, assault: Assault, _: int) -> None:
        """One session of it."""
        blocks = speech(assault.material)
        some = max(1, round(self.pace / 10))  # blocks at a time: ten times a second
        with websocket(assault) as wire:
            for turn in assault.turns():
                wire.write(b"".join(blocks[(turn * some + step) % len(blocks)] for step in range(some)))
                assault.rest(0.1 * some / self.pace)


def pings(assault: Assault, _: int) -> None:
    """Nothing but empty pings."""
    _flood(assault, frame(Opcode.PING) * FRAMES)


def fragments(assault: Assault, _: int) -> None:
    """Audio messages in fragments of one byte."""
    middle = frame(Opcode.CONT, b"\0", fin=False) * FRAMES
    whole = frame(Opcode.BINARY, b"\0", fin=False) + 8 * middle + frame(Opcode.CONT, b"\0")
    _flood(assault, whole)


def keepalives(assault: Assault, _: int) -> None:
    """Text messages that ask for nothing."""
    _flood(assault, frame(Opcode.TEXT, b'{"type":"keepalive"}') * FRAMES)


def _flood(assault: Assault, data: bytes) -> None:
    with websocket(assault) as wire:
        for _ in assault.turns():
            wire.write(data)


def leave(assault: Assault, _: int) -> None:
    """Begins a session, sends 12 s in one frame, and leaves; then another."""
    data = (assault.material / SPEECH).read_bytes()
    twelve = frame(Opcode.BINARY, (data * 3)[: 12 * 10 * BLOCK])
    with websocket(assault) as wire:
        wire.write(START)
        wire.until(b'"session"')
        wire.write(twelve)


def values(assault: Assault, _: int) -> None:
    """JSON of 300,000 values."""
    large = frame(Opcode.TEXT, b'{"type":"start","changes":[' + b"0," * 299_999 + b"0]}")
    with websocket(assault) as wire:
        for _turn in assault.turns():
            wire.write(large)


def unread(assault: Assault, _: int) -> None:
    """Sends speech, and now and then what is answered, and reads nothing."""
    strange = frame(Opcode.TEXT, b'{"type":"' + b"x" * 200 + b'"}')
    with websocket(assault, buffer=4096) as wire:
        wire.reads = False
        for turn in assault.turns():
            wire.write(speech(assault.material)[turn % len(speech(assault.material))] + strange)
            assault.rest(0.025)


def opus(assault: Assault, _: int) -> None:
    """Hours of silence as Opus in Ogg, which is few bytes, on Deepgram's address."""
    _stream(assault, "/v1/listen", HOURS)


def webm(assault: Assault, _: int) -> None:
    """The same in WebM on WhisperLiveKit's."""
    _stream(assault, "/asr", WEBM)


def _stream(assault: Assault, path: str, name: str) -> None:
    data = (assault.material / name).read_bytes()
    with websocket(assault, path) as wire:
        for at in range(0, len(data), PORTION):
            wire.write(frame(Opcode.BINARY, data[at : at + PORTION]))
        for _turn in assault.turns():  # not gone before it is heard
            wire.read()
            assault.rest(0.1)
