"""What `turns` remembers: the utterance being worked on, the rounds in flight, what the caller asked for.

A value: a copy of it is a place to go on from.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from whispertide.audio.vad import GateEvent, SpeechCertain, SpeechStarted
from whispertide.model.engine import EncoderState
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.types import Word


@dataclass(slots=True)
class Utterance:
    """The stretch of speech being worked on.

    known      how much audio it took to know of it
    policy     the policy's state
    keep_from  the first sample that is still needed
    last_end   where the newest planned round ends; at first, where the utterance begins
    end        its last sample, once that is known; `closed_at` is how much audio it took to know
    spoken     whether any of its words is confirmed
    words      how many of them the policy has confirmed, written or not
    withheld   confirmed words that wait until it is certain that it is no click
    spent      how long the newest round that came back was computed, in samples; 0 where audio does not come live
    pending    whether that round guessed words that are not confirmed
    due_at     how much audio there was when its next round came due; None: it has not yet
    unfinished whether the last confirmed word leaves a sentence open
    language   what the confirmed words of its turn are in, where that was detected
    ahead      its last round, as it would be if nobody spoke on: no more than a cache, too
    encoder    what the encoder carries from the newest round that came back to the next: no more than a cache, since
               the audio of the next window gives the same
    """

    start: int
    known: int
    policy: Any
    keep_from: int
    last_end: int
    end: int | None = None
    closed_at: int = 0
    last_planned: bool = False
    spoken: bool = False
    unfinished: bool = False
    language: str | None = None
    words: int = 0
    withheld: tuple[Word, ...] = ()
    spent: int = 0
    pending: bool = False
    due_at: int | None = None
    encoder: EncoderState | None = None
    ahead: RoundResult[Any] | None = None

    def copy(self) -> "Utterance":
        """An independent copy."""
        return replace(self, policy=self.policy.copy())

    def believed(self, commit: Commit, *, certain: bool, is_last: bool) -> Commit:
        """What of a verdict is written: words wait until it is `certain` that somebody speaks, and of a click none are.

        A cry or a tick may sound like a word as well as like a voice.
        """
        words = (*self.withheld, *commit.confirmed)
        self.withheld = () if certain or is_last else words
        if certain:
            return replace(commit, confirmed=words)
        return replace(commit, confirmed=(), closing=None, hypothesis=() if is_last else (*words, *commit.hypothesis))


@dataclass(slots=True)
class OpenTurn:
    """A turn whose newest utterance ended, at sample `end`, in mid-sentence: the next one may go on with it.

    policy    the policy's state at that end
    language  what its words are in
    """

    end: int
    policy: Any
    language: str | None = None

    def copy(self) -> "OpenTurn":
        """An independent copy."""
        return replace(self, policy=self.policy.copy())


@dataclass(frozen=True, slots=True)
class Flight:
    """A round that was planned and has not come back. `at` goes into its events; the rest is for taking it back."""

    plan: RoundPlan
    at: int
    last_end: int
    recorded: bool


@dataclass(frozen=True, slots=True)
class EndRequest:
    """The caller wants everything before sample `at` confirmed and, for "finish", nothing after it."""

    kind: Literal["flush", "finish"]
    at: int


@dataclass(slots=True)
class TurnState:
    """All that is remembered.

    pause_end   where the gate ends the open utterance if nobody speaks on; None where somebody speaks
    turn        the turn that may go on; None where the last one is over
    certain     how much audio it took to know that utterances are no clicks, each once
    floor       end of the last utterance: the next one begins there or later
    stale       rounds in flight whose results no longer matter
    boundaries  ends of all rounds so far but those that ended an utterance; `loads` are what computing took of the
                steps to them
    chances     the probabilities of the last confirmed words
    spoken      the language of the last confirmed words, where it was detected
    closing     a mark after them that stands if the turn ends here, or by what follows (`Commit.closing`)
    """

    received: int = 0
    pause_end: int | None = None
    turn: OpenTurn | None = None
    floor: int = 0
    gate_events: list[GateEvent] = field(default_factory=list)
    certain: list[int] = field(default_factory=list)
    utterance: Utterance | None = None
    in_flight: list[Flight] = field(default_factory=list)
    stale: set[int] = field(default_factory=set)
    requests: list[EndRequest] = field(default_factory=list)
    boundaries: list[int] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)
    chances: tuple[float, ...] = ()
    spoken: str | None = None
    closing: Word | None = None
    next_round: int = 0
    ended: bool = False

    def hear(self, events: Iterable[GateEvent]) -> None:
        """This is what the gate says next."""
        for event in events:
            if isinstance(event, SpeechCertain) or (isinstance(event, SpeechStarted) and event.is_certain):
                self.certain.append(event.decided_at)
            if not isinstance(event, SpeechCertain):
                self.gate_events.append(event)

    def is_certain(self, utterance: Utterance, end: int) -> bool:
        """Whether the audio up to sample `end` tells that the utterance is no click."""
        return any(utterance.known <= at <= end for at in self.certain)

    def take_back(self) -> None:
        """Forget the newest round in flight, as if it had not been planned."""
        flight = self.in_flight.pop()
        assert self.utterance is not None
        self.utterance.last_end = flight.last_end
        self.utterance.last_planned = False
        if flight.recorded:
            self.boundaries.pop()
            self.loads.pop()

    def forget(self) -> None:
        """Let go of `boundaries` and `loads`, but of those that can still be taken back."""
        done = len(self.boundaries) - sum(flight.recorded for flight in self.in_flight)
        del self.boundaries[:done], self.loads[:done]

    def copy(self) -> "TurnState":
        """An independent copy; values that never change are shared."""
        return replace(
            self,
            gate_events=list(self.gate_events),
            certain=list(self.certain),
            utterance=self.utterance and self.utterance.copy(),
            turn=self.turn and self.turn.copy(),
            in_flight=list(self.in_flight),
            stale=set(self.stale),
            requests=list(self.requests),
            boundaries=list(self.boundaries),
            loads=list(self.loads),
        )
