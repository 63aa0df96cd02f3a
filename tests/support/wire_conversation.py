"""One client's conversation with a protocol, without sockets: what the server does, by hand and in any order of time.

The session is real, its model an oracle that knows the words. Commands wait in a queue until `step` carries one out,
as they do on a busy server, so a test decides how late the answers come.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oracle import Oracle, audio_between, make_gate
from whispertide.events import Confirmed, Event
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.server.protocols.base import (
    Abandon,
    Action,
    Actions,
    Audio,
    Clear,
    Close,
    Configure,
    Finish,
    Flush,
    Opening,
    Problem,
    ProtocolError,
    Reply,
    Start,
    Started,
    WireProtocol,
)
from whispertide.server.protocols.server_info import ModelInfo, RecipeInfo, ServerInfo
from whispertide.session import Session
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import SAMPLE_RATE, FloatArray, Word, join_words

SERVER = ServerInfo(
    models=(ModelInfo("nano.en"), ModelInfo("base", ("de", "en", "fr"))),
    recipes=(RecipeInfo("whisper-streaming"),),
    recipe="whisper-streaming",
    version="1.2.3",
    limit_s=3600,
)


def opening(**query: str | list[str]) -> Opening:
    lists = {name: [value] if isinstance(value, str) else value for name, value in query.items()}
    return Opening(
        server=SERVER,
        connection="c0ffee",
        query={name: values[-1] for name, values in lists.items() if values},
        lists=lists,
        at=1_700_000_000.0,
    )


def said(count: int, *, every_s: float = 0.5, pause_every: int = 0, pause_s: float = 2.0) -> tuple[Word, ...]:
    """`count` words of 0.4 s, with a pause after every `pause_every` of them."""
    words, at = [], 0.2
    for number in range(count):
        start = round(at * SAMPLE_RATE)
        words.append(Word(f" w{number}", start, start + 6_400))
        at += every_s + (pause_s if pause_every and number % pause_every == pause_every - 1 else 0)
    return tuple(words)


def silence(duration_s: float, rate: int = SAMPLE_RATE, width: int = 2) -> bytes:
    """Audio: the oracle does not listen, it knows."""
    return bytes(round(duration_s * rate) * width)


class KnowingOracle(Oracle):
    """Takes any audio for that of the words."""

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        return super().run(plan, audio_between(plan.window.start, plan.window.end), options)


@dataclass
class Conversation:
    """`replies` are what the client was sent; `heard` what its sessions confirmed."""

    protocol: WireProtocol
    words: Sequence[Word] = ()
    seed: int = 0
    replies: list[str | bytes] = field(default_factory=list)
    heard: list[Word] = field(default_factory=list)
    queue: deque[Action] = field(default_factory=deque)
    performed: list[Action] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    close: Close | None = None
    session: Session | None = None

    def __post_init__(self) -> None:
        self._perform(self.protocol.opened())

    def send(self, *messages: str | bytes | dict[str, Any]) -> None:
        for message in messages:
            if self.close is not None:
                return
            try:
                sent = json.dumps(message) if isinstance(message, dict) else message
                self._perform(self.protocol.receive(sent))
            except ProtocolError as error:
                self.trouble(Problem("bad_request", str(error), error.fatal))

    def play(self, steps: Iterable[Any], audio: Callable[[Any], str | bytes | dict[str, Any]]) -> None:
        """Send audio for each number and anything else as it is; at None the session carries a command out."""
        for step in steps:
            if step is None:
                self.step()
            else:
                self.send(audio(step) if isinstance(step, int | float) else step)

    def trouble(self, problem: Problem) -> None:
        """Something that the server finds wrong."""
        self.problems.append(problem)
        self._perform(self.protocol.problem(problem))
        if problem.fatal:
            self.close = self.close or Close(1008)

    def hang_up(self) -> None:
        """The client closes its side; over TCP it goes on reading."""
        self._perform(self.protocol.closed())

    def silent(self) -> None:
        """The client has said nothing for as long as it may."""
        self._perform(self.protocol.idle())

    def step(self) -> bool:
        """Carry out the oldest command, if there is one."""
        if not self.queue:
            return False
        action = self.queue.popleft()
        match action:
            case Start(settings):
                assert self.session is None, "a session is open already"
                recipe = get_recipe("whisper-streaming").replace(**settings.changes)
                gate = make_gate(self.words) if settings.vad is not False else None
                self.session = Session(recipe, KnowingOracle(self.words, self.seed), gate)
                model = settings.model if settings.model in ("nano.en", "base") else "nano.en"
                self._perform(self.protocol.started(Started("s1", model or "", recipe.name, settings.language)))
                return True
            case Abandon():
                self.session = None
                return True
        assert self.session is not None, f"{action} without a session"
        match action:
            case Audio(samples):
                assert samples.dtype == np.float32
                self._tell(self.session.push(samples))
                self._perform(self.protocol.processed(self.session.received))
            case Flush():
                self._tell(self.session.flush())
                self._perform(self.protocol.flushed())
            case Clear():
                self._tell(self.session.clear())
                self._perform(self.protocol.cleared())
            case Configure(changes):
                self.session.configure(**changes)
            case Finish():
                self._tell(self.session.finish())
                self.session = None
        return True

    def run(self) -> None:
        while self.step():
            pass

    def _tell(self, events: list[Event]) -> None:
        self.heard += [word for event in events if isinstance(event, Confirmed) for word in event.words]
        if events:
            self._perform(self.protocol.events(events))

    def _perform(self, actions: Actions) -> None:
        for action in actions:
            self.performed.append(action)
            match action:
                case Reply(message):
                    assert self.close is None, f"{message!r} after {self.close}"
                    self.replies.append(message)
                case Close():
                    self.close = self.close or action
                case _:
                    self.queue.append(action)

    @property
    def text(self) -> str:
        """What was confirmed."""
        return join_words(self.heard)

    def json(self, *kinds: str) -> list[dict[str, Any]]:
        """The JSON replies, or those of some types."""
        found = [json.loads(reply) for reply in self.replies]
        return [reply for reply in found if not kinds or reply.get("type") in kinds]

    def asked(self) -> Any:
        """What the session was to be."""
        (start,) = [action for action in self.performed if isinstance(action, Start)]
        return start.settings
