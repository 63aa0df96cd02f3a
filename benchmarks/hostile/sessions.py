"""What hostile clients ask of sessions: the most costly that is allowed, and more often than anybody needs."""

import json
import re

from websockets.frames import Opcode

from hostile.assault import Assault
from hostile.frames import speech
from hostile.wire import frame, websocket

COSTLY = {"beam": 8, "framing": "pad30", "step_s": 0.1}
_FLUSHES_PER_S = 40  # fewer than the server lets a client send


def _text(**message: object) -> bytes:
    return frame(Opcode.TEXT, json.dumps(message).encode())


def costly(assault: Assault, _: int) -> None:
    """Unpaced speech in padded windows with the widest beam that a client may ask for, in ten rounds a second."""
    with websocket(assault) as wire:
        wire.write(_text(type="start", recipe="whisper-streaming", changes=COSTLY))
        whole = b"".join(speech(assault.material))
        for _turn in assault.turns():
            wire.write(whole)


def flushes(assault: Assault, _: int) -> None:
    """A flush after every block, which is a round each."""
    blocks = speech(assault.material)
    with websocket(assault) as wire:
        for turn in assault.turns():
            wire.write(blocks[turn % len(blocks)] + _text(type="flush"))
            assault.rest(1 / _FLUSHES_PER_S)


def wide(assault: Assault, _: int) -> None:
    """Eight channels of floats at 192 kHz, which have to be mixed and resampled, as fast as they are taken."""
    silence = frame(Opcode.BINARY, bytes(8 * 4 * 19_200))
    with websocket(assault) as wire:
        wire.write(_text(type="start", rate=192_000, channels=8, format="f32le"))
        for _turn in assault.turns():
            wire.write(silence)


def takeovers(assault: Assault, _: int) -> None:
    """Comes back to a session of its own again and again, while the last connection still has it."""
    with websocket(assault) as first:
        first.write(_text(type="start") + speech(assault.material)[0])
        found = re.search(rb'"session":"([^"]+)"', first.until(b'"received"'))
        if found is None:
            return
        for _turn in assault.turns():
            with websocket(assault, f"/ws?session={found[1].decode()}&last_seq=-1") as again:
                again.until(b'"session"')
