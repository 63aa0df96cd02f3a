"""Every kind of hostile client by name, and how many of it there are where a siege does not say."""

from collections.abc import Mapping
from dataclasses import dataclass

from hostile import crowds, frames, requests, rubbish, sessions
from hostile.assault import Attack


@dataclass(frozen=True)
class Kind:
    """What a client does. `usual` are the numbers of threads that are tried; it begins `ahead_s` before the honest."""

    attack: Attack
    usual: tuple[int, ...]
    about: str
    ahead_s: float = 2.0


KINDS: Mapping[str, Kind] = {
    "unpaced": Kind(frames.unpaced, (2, 8), "sends a file as fast as the server reads"),
    "unpaced-lines": Kind(frames.unpaced_lines, (4,), "the same over the TCP port for lines"),
    "60x": Kind(frames.Hurried(60.0), (2,), "sends audio at sixty times real time"),
    "30x": Kind(frames.Hurried(30.0), (2,), "sends audio at thirty times real time"),
    "speakers": Kind(frames.Hurried(1.0), (24,), "send speech in real time, all with one key"),
    "pings": Kind(frames.pings, (1, 4, 16), "empty WebSocket pings"),
    "fragments": Kind(frames.fragments, (4,), "audio in fragments of one byte"),
    "keepalives": Kind(frames.keepalives, (4,), "`keepalive` messages"),
    "leave": Kind(frames.leave, (8,), "opens a session, sends 12 s in one frame and leaves, over and over"),
    "uploads": Kind(requests.uploads, (4,), "files of 4 h of silence in 2 MB, Ogg Opus"),
    "stated-uploads": Kind(requests.stated_uploads, (4,), "the same as FLAC, which states its length"),
    "idle": Kind(crowds.idle, (1,), "600 idle WebSockets of one key, from three addresses", 8.0),
    "silent": Kind(crowds.silent, (1,), "768 silent sockets of three addresses", 8.0),
    "wrong-keys": Kind(requests.wrong_keys, (4,), "wrong keys, one after another"),
    "guesses": Kind(requests.guesses, (4,), "guesses sessions to resume"),
    "ahead": Kind(requests.ahead, (4,), "pipelined HTTP requests, without reading the answers"),
    "requests": Kind(requests.requests, (4,), "all HTTP requests that are allowed, as fast as they are answered"),
    "unread": Kind(frames.unread, (4,), "sends speech and odd messages, and reads nothing"),
    "values": Kind(frames.values, (4,), "JSON of 300,000 values"),
    "nonsense": Kind(rubbish.nonsense, (4,), "random bytes on every port"),
    "describe": Kind(rubbish.describe, (4,), "Wyoming's `describe`, over and over"),
    "opus": Kind(frames.opus, (4,), "4 h of Opus in Ogg in 2 MB, as a live stream"),
    "webm": Kind(frames.webm, (4,), "the same in WebM"),
    "costly": Kind(sessions.costly, (4,), "unpaced speech with the widest beam that the server allows"),
    "flushes": Kind(sessions.flushes, (4,), "a flush after every block, forty a second"),
    "wide": Kind(sessions.wide, (4,), "eight channels of floats at 192 kHz, unpaced"),
    "takeovers": Kind(sessions.takeovers, (4,), "resumes its own session while it is still connected"),
    "temporary-keys": Kind(requests.temporary_keys, (4,), "makes temporary keys with long prompts"),
    "slow-bodies": Kind(requests.slow_bodies, (2,), "forty uploads each, a byte at a time"),
}


@dataclass(frozen=True)
class Force:
    """A kind, and how many of it: `pings:16`."""

    name: str
    clients: int

    def __str__(self) -> str:
        """As it is asked for."""
        return f"{self.name}:{self.clients}"


Siege = tuple[Force, ...]  # those that come at the same time; none: nobody does


def named(siege: Siege) -> str:
    """As it is asked for, `pings:4+unpaced:2`; `alone` where nobody comes."""
    return "+".join(map(str, siege)) or "alone"


def parsed(text: str) -> list[Siege]:
    """`pings:4`, `pings` (its usual numbers, one after the other), `pings:4+unpaced:2` or `alone`.

    Raises `ValueError`.
    """
    if text == "alone":
        return [()]
    names = text.split("+")
    if len(names) == 1 and text in KINDS:
        return [(Force(text, clients),) for clients in KINDS[text].usual]
    return [tuple(_force(name) for name in names)]


def _force(text: str) -> Force:
    name, _, clients = text.partition(":")
    if name not in KINDS or (clients and not 1 <= int(clients) <= 64):
        raise ValueError(f"expected KIND or KIND:CLIENTS (1 to 64), of {', '.join(KINDS)}; got {text}")
    return Force(name, int(clients) if clients else KINDS[name].usual[0])


EVERYTHING: tuple[Siege, ...] = ((), *(siege for name in KINDS for siege in parsed(name)))
TOGETHER = ("unpaced:4+pings:4", "leave:8+uploads:4", "idle+values:4", "nonsense:4+wrong-keys:4", "silent+keepalives:4")
