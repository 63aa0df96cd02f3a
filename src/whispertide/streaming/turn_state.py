"""The planner's memory: the utterance being worked on, the rounds in flight, what the caller asked for.

A value: a copy of it is a place to go on from.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from whispertide.audio.vad import GateEvent, SpeechCertain, SpeechStarted, SpeechStopped
from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.policy import Executor
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.stages import Pending, begin
from whispertide.types import FloatArray, Word


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
    unsettled  confirmed words that wait until it is clear whose they are
    spent      how long the newest round that came back was computed, in samples; 0 where audio does not come live
    due_at     how much audio there was when its next round came due; None: it has not yet
    unfinished whether the last confirmed word leaves a sentence open
    language   what the confirmed words of its turn are in, where that was detected
    onset      the first sample that sounds like a voice, where a gate has said so
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
    unsettled: tuple[Word, ...] = ()
    spent: int = 0
    due_at: int | None = None
    encoder: EncoderState | None = None
    ahead: RoundResult[Any] | None = None
    onset: int | None = None

    def copy(self) -> "Utterance":
        """An independent copy."""
        return replace(self, policy=self.policy.copy())


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


@dataclass(slots=True)
class PlannedRound:
    """A round that was planned and has not come back. `at` goes into its events, `last_end` and `recorded` are for
    taking it back. `under_way` is its computation, where the session itself has begun one.
    """

    plan: RoundPlan
    at: int
    last_end: int
    recorded: bool
    under_way: Pending | None = field(default=None, compare=False, repr=False)


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
    in_flight: list[PlannedRound] = field(default_factory=list)
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
        """True if the audio up to sample `end` shows that the utterance is no click."""
        return any(utterance.known <= at <= end for at in self.certain)

    def next_stop(self, frontier: int) -> SpeechStopped | None:
        """The gate's next event, if it ends the utterance and was decided on by `frontier`."""
        event = self.gate_events[0] if self.gate_events else None
        if not isinstance(event, SpeechStopped) or event.decided_at > frontier:
            return None
        del self.gate_events[0]
        return event

    def leave_open(self, utterance: Utterance, end: int, *, always: bool) -> bool:
        """Leave the turn of an utterance that ended open if that was in mid-sentence, or `always`; true if it is open.

        A noise in which nothing was heard changes nothing, and does not put off the end of a turn.
        """
        if utterance.spoken:
            goes_on = always or utterance.unfinished
            self.turn = OpenTurn(end, utterance.policy, utterance.language) if goes_on else None
        return self.turn is not None

    # --- rounds that are computed where they were planned -------------------------------------------------------------

    @property
    def encoder(self) -> EncoderState | None:
        """The encoder state of the newest round that came back, for the next one of the utterance."""
        return None if self.utterance is None else self.utterance.encoder

    @property
    def is_ready(self) -> bool:
        """True if a round is under way, and taking the result of the oldest does not wait."""
        oldest = self.in_flight[0].under_way if self.in_flight else None
        return oldest is not None and oldest.done

    def begin(self, executor: Executor, audio: FloatArray, options: DecodeOptions) -> None:
        """Begin to compute the newest round. Raises what the executor raises."""
        *before, planned = self.in_flight
        after = before[-1].under_way if before else None
        planned.under_way = begin(executor, planned.plan, audio, options, self.encoder, after)

    def oldest(self) -> RoundResult[Any]:
        """Wait for the result of the oldest. Raises what its computation raised."""
        under_way = self.in_flight[0].under_way
        assert under_way is not None
        return under_way.result()

    def abandon(self) -> None:
        """Stop what is under way; then no round counts as planned."""
        while any(planned.under_way for planned in self.in_flight):
            self.take_back()

    # --- rounds whose results nobody wants ----------------------------------------------------------------------------

    def take_back(self) -> None:
        """Forget the newest round in flight, as if it had not been planned."""
        planned = self.in_flight.pop()
        if planned.under_way is not None:
            planned.under_way.cancel()
        assert self.utterance is not None
        self.utterance.last_end = planned.last_end
        self.utterance.last_planned = False
        if planned.recorded:
            self.boundaries.pop()
            self.loads.pop()

    def give_up(self) -> None:
        """Take back the newest round in flight, whose result nobody wants any more."""
        self._disown(self.in_flight[-1])
        self.take_back()

    def give_up_all(self) -> None:
        """Nobody wants the result of any round in flight; what was recorded of them stays."""
        for planned in self.in_flight:
            self._disown(planned)
            if planned.under_way is not None:
                planned.under_way.cancel()
        self.in_flight.clear()

    def _disown(self, planned: PlannedRound) -> None:
        """Ignore the result, which may come all the same: whoever computes rounds elsewhere cannot always stop."""
        if planned.under_way is None:
            self.stale.add(planned.plan.id)

    def forget(self) -> None:
        """Let go of `boundaries` and `loads`, but of those that can still be taken back."""
        done = len(self.boundaries) - sum(planned.recorded for planned in self.in_flight)
        del self.boundaries[:done], self.loads[:done]

    def copy(self) -> "TurnState":
        """An independent copy, without computations; values that never change are shared."""
        return replace(
            self,
            gate_events=list(self.gate_events),
            certain=list(self.certain),
            utterance=self.utterance and self.utterance.copy(),
            turn=self.turn and self.turn.copy(),
            in_flight=[replace(planned, under_way=None) for planned in self.in_flight],
            stale=set(self.stale),
            requests=list(self.requests),
            boundaries=list(self.boundaries),
            loads=list(self.loads),
        )
