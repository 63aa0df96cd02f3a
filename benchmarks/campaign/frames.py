"""Conversations that clients have, frame by frame, and what chance makes of them."""

import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from standing_server import frame
from whispertide.server.protocols.wyoming import Frame, encode

TEXT, BINARY = 1, 2
AUDIO = bytes(3200)
STRANGE: tuple[object, ...] = (
    "",
    "x" * 500,
    "\x00",
    "16000",
    "pcm16",
    -1,
    0,
    10**30,
    1e308,
    None,
    True,
    [],
    {},
    [[[]]],
)


@dataclass(frozen=True)
class Kind:
    """A protocol: its WebSocket's path or its port's name, and what a client of it says."""

    name: str
    path: str
    says: tuple[dict[str, object] | bytes, ...]
    opens: bytes = b""


def _openai_audio() -> dict[str, object]:
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(AUDIO).decode()}


SOCKETS = (
    Kind(
        "native",
        "/ws",
        (
            {"type": "start", "language": "en", "rate": 16_000, "channels": 1, "format": "s16le", "vad": True},
            *[AUDIO] * 3,
            {"type": "configure", "changes": {"step_s": 1.0}},
            {"type": "ack", "seq": 0},
            {"type": "flush"},
            {"type": "keepalive"},
            {"type": "clear"},
            {"type": "resume", "session": "x", "last_seq": 1},
        ),
    ),
    Kind(
        "openai",
        "/v1/realtime?intent=transcription",
        (
            {
                "type": "session.update",
                "session": {"type": "transcription", "audio": {"input": {"turn_detection": None}}},
            },
            *[_openai_audio()] * 3,
            {"type": "input_audio_buffer.commit"},
            {"type": "input_audio_buffer.clear"},
        ),
    ),
    Kind(
        "deepgram",
        "/v1/listen?encoding=linear16&sample_rate=16000",
        (*[AUDIO] * 3, {"type": "KeepAlive"}, {"type": "Finalize"}, {"type": "Configure", "keyterms": ["a"]}),
    ),
    Kind(
        "assemblyai",
        "/v3/ws?sample_rate=16000",
        (
            *[AUDIO] * 3,
            {"type": "ForceEndpoint"},
            {"type": "KeepAlive"},
            {"type": "UpdateConfiguration", "prompt": "a"},
        ),
    ),
    Kind(
        "whisperlive",
        "/",
        (*[AUDIO] * 4, {"uid": "u", "language": "en", "task": "transcribe", "vad_parameters": {}}),
        frame(TEXT, b'{"uid":"u","language":"en"}'),
    ),
    Kind("whisperlivekit", "/asr", (AUDIO,)),
)
_FORMAT: dict[str, object] = {"rate": 16_000, "width": 2, "channels": 1}
WYOMING = (
    Frame("describe"),
    Frame("transcribe", {"language": "en"}),
    Frame("audio-start", dict(_FORMAT)),
    *[Frame("audio-chunk", dict(_FORMAT), AUDIO)] * 3,
    Frame("audio-stop"),
    Frame("ping", {"text": "x"}),
)

Change = Callable[[bytes, random.Random], bytes]


def _flip(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(dice.choice((1, 1, 3, 20))):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


def _cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def _splice(data: bytes, dice: random.Random) -> bytes:
    start, stop = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + data[start:stop] * dice.randint(0, 3) + data[stop:]


BYTES: tuple[Change, ...] = (_flip, _cut, _splice)


def twisted(message: dict[str, object], dice: random.Random) -> dict[str, object]:
    """One value of it is another, one is gone, or one is new; inside of what it holds, too."""
    changed = dict(message)
    key = dice.choice(list(changed))
    held = changed[key]
    match dice.randrange(4):
        case 0:
            changed[key] = dice.choice(STRANGE)
        case 1:
            del changed[key]
        case 2:
            changed[dice.choice(("type", "seq", "rate", "language", "audio", "changes", "x"))] = dice.choice(STRANGE)
        case _ if isinstance(held, dict) and held:
            changed[key] = twisted(held, dice)
    return changed


def websocket_frame(kind: Kind, dice: random.Random) -> bytes:
    """A message of this protocol or of another, changed in its values, its bytes or its frame."""
    message = dice.choice(kind.says if dice.random() < 0.9 else dice.choice(SOCKETS).says)
    opcode = BINARY if isinstance(message, bytes) else TEXT
    if isinstance(message, dict):
        data = json.dumps(twisted(message, dice) if dice.random() < 0.7 else message).encode()
    else:
        data = message[: 2 * dice.randrange(len(message) // 2 + 1)]
    if dice.random() < 0.1:
        data = dice.choice(BYTES)(data, dice)
    if opcode == TEXT:
        data = data.decode(errors="replace").encode()  # other bytes end the connection; some do below
    match dice.randrange(100):
        case 0:
            return _flip(frame(opcode, data), dice)  # the frame itself
        case 1:
            return frame(dice.randrange(16), data[:125], fin=dice.random() < 0.5)
        case 2 | 3:
            return frame(3 - opcode, data.decode(errors="replace").encode())
        case 4 | 5:
            half = len(data) // 2
            return frame(opcode, data[:half], fin=False) + frame(9, b"ping") + frame(0, data[half:])
    return frame(opcode, data)


def wyoming_frame(dice: random.Random) -> bytes:
    """An event of Wyoming, changed in its values, now and then in its bytes."""
    event = dice.choice(WYOMING)
    data = twisted(event.data, dice) if event.data and dice.random() < 0.6 else event.data
    whole = encode(Frame(event.type, data, event.payload[: 2 * dice.randrange(1601)]))
    return dice.choice(BYTES)(whole, dice) if dice.random() < 0.03 else whole


def pcm(dice: random.Random) -> bytes:
    """Audio for the ports that take nothing else: any bytes are."""
    return dice.randbytes(dice.choice((1, 2, 3, 640, 641, 3200)))
