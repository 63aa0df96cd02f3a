"""What hostile clients send that means nothing, or the same question over and over."""

import random

from websockets.frames import Opcode

from hostile.assault import Assault
from hostile.wire import Wire, connection, frame, websocket


def nonsense(assault: Assault, number: int) -> None:
    """Random bytes: as HTTP, as frames of a WebSocket, and on the TCP ports."""
    dice = random.Random(f"nonsense {number} {assault.tally['attacks']}")
    rubbish = dice.randbytes(dice.randrange(1, 20_000))
    match dice.randrange(4):
        case 0:
            with connection(assault) as wire:
                _tell(wire, rubbish)
        case 1:
            with websocket(assault) as wire:
                _tell(wire, rubbish)
        case 2:
            with websocket(assault) as wire:
                _tell(wire, frame(Opcode.TEXT, rubbish) + frame(Opcode.BINARY, rubbish) + rubbish)
        case _:
            with connection(assault, assault.ports[dice.choice(("wyoming", "lines"))]) as wire:
                _tell(wire, rubbish)


def _tell(wire: Wire, data: bytes) -> None:
    wire.write(data)
    wire.read()


def describe(assault: Assault, _: int) -> None:
    """Wyoming's question for what the server has, whose answer is long."""
    with connection(assault, assault.ports["wyoming"]) as wire:
        for _turn in assault.turns():
            wire.write(b'{"type":"describe"}\n' * 1000)
