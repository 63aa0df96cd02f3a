"""A voice gate that also hears whether a turn is over: in each pause it asks an `EndOfTurn`.

    speech | 0.2 s of silence: asked  ->  sure: the utterance and its turn end here, sooner than any pause could tell
                                          not sure: the utterance ends in the usual pause, the turn goes on
           | `timeout_s` of silence ends the turn in any case

It asks once a pause: the longer the silence, the more it sounds like an end, whatever was said before (lab/log). The
gate inside finds the speech; this one adds `TurnJudged` to what it says. It keeps the last seconds of the turn's audio.
What is asked, and when, depends on the audio alone, not on its portions.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise

from whispertide.audio.buffer import AudioBuffer
from whispertide.audio.silero import BLOCK
from whispertide.audio.vad import GateEvent, GateState, SpeechGate, SpeechStarted, SpeechStopped, TurnJudged
from whispertide.streaming.end_of_turn import EndOfTurn, TurnLimits
from whispertide.types import FloatArray, to_samples

ASKED_AT = to_samples(0.2)  # of silence; Smart Turn was trained on turns that end so
_BEFORE = to_samples(0.5)  # that much before its first speech belongs to a turn (pipecat: as much)


@dataclass(slots=True)
class TurnGateState:
    """The state of a turn gate.

    gate    of the gate inside
    audio   the last seconds of all audio, up to the newest sample that was judged
    start   where the open turn begins; None: no turn is open
    spoken  where its last certain speech ends
    asked   whether that was done in this pause; `chance` is the answer
    """

    gate: GateState = field(default_factory=GateState)
    audio: AudioBuffer = field(default_factory=AudioBuffer)
    start: int | None = None
    spoken: int = 0
    asked: bool = False
    chance: float = 0.0

    def copy(self) -> "TurnGateState":
        """An independent copy."""
        return replace(self, gate=self.gate.copy(), audio=self.audio.copy())


class TurnGate:
    """A gate (`audio.vad.Gate`) around another one. `limits` may be exchanged while it runs."""

    def __init__(self, gate: SpeechGate, end_of_turn: EndOfTurn, limits: TurnLimits) -> None:
        self.limits = limits
        self._gate = gate
        self._ear = end_of_turn
        self._state = TurnGateState()

    @property
    def needed_from(self) -> int:
        """See `audio.vad.Gate`."""
        return self._gate.needed_from

    @property
    def quiet(self) -> int:
        """See `audio.vad.Gate`."""
        return self._gate.quiet

    @property
    def pause_end(self) -> int | None:
        """See `audio.vad.Gate`."""
        return self._gate.pause_end

    def feed(self, samples: FloatArray) -> list[GateEvent]:
        """Judge the next `samples` [n]; returns the starts and stops of utterances, and what is heard of turns.

        Raises what the `EndOfTurn` raises; then nothing was taken, and the same samples can be fed again.
        """
        state, gate, received = replace(self._state), self._gate.snapshot(), self._gate.received
        self._state.audio.append(samples)
        try:
            events = self._judge_blocks(samples)
        except BaseException:  # also an interrupt
            state.audio.drop_after(received)
            self._state = state
            self._gate.restore(gate)
            raise
        self._state.audio.drop_before(max(0, self._gate.received - self._ear.longest - BLOCK))
        return events

    def finish(self) -> list[GateEvent]:
        """End the open utterance, if any, at the newest sample, and with it the turn; feeding may go on."""
        self._state.start = None
        return self._gate.finish()

    def snapshot(self) -> TurnGateState:
        """The state, for `restore`."""
        state = self._state.copy()
        state.gate = self._gate.snapshot()
        return state

    def restore(self, state: TurnGateState) -> None:
        """Go on from `state`."""
        self._state = state.copy()
        self._gate.restore(state.gate)

    def _judge_blocks(self, samples: FloatArray) -> list[GateEvent]:
        """Block by block, since a pause is judged where it is so long and not where a portion ends."""
        events: list[GateEvent] = []
        first = BLOCK - self._gate.received % BLOCK
        for start, end in pairwise((0, *range(first, len(samples), BLOCK), len(samples))):
            events += self._judge(self._gate.feed(samples[start:end]))
        return events

    def _judge(self, events: list[GateEvent]) -> list[GateEvent]:
        """The events of a block, with what there is to say of the turn after them."""
        state = self._state
        for event in events:
            if isinstance(event, SpeechStarted) and state.start is None:
                state.start, state.spoken = max(event.start, event.decided_at - _BEFORE), 0
            elif isinstance(event, SpeechStopped) and not state.spoken:
                state.start = None  # a click is no turn
        if state.start is None:
            return events
        if self._gate.is_certain:
            self._hear_speech()
        elif self._gate.is_open or not state.spoken:
            return events  # nobody knows yet whether somebody speaks
        return [*events, *self._in_pause(self._gate.judged - state.spoken)]

    def _hear_speech(self) -> None:
        """Somebody speaks, or has just spoken: a pause begins anew with every word."""
        state, until = self._state, self._gate.judged - self._gate.quiet
        if until > state.spoken:
            state.spoken, state.asked, state.chance = until, False, 0.0

    def _in_pause(self, silence: int) -> list[GateEvent]:
        """What there is to say after so much silence."""
        state, limits = self._state, self.limits
        if not state.asked and silence >= ASKED_AT:
            state.asked, state.chance = True, self._ask()
            if state.chance > limits.threshold:
                return self._end()
            if state.chance > limits.eager > 0:
                return [*self._gate.stop(), TurnJudged(self._gate.judged, is_over=False, confidence=state.chance)]
        return self._end() if silence >= limits.timeout else []

    def _ask(self) -> float:
        state, end = self._state, self._gate.judged
        assert state.start is not None
        start = max(state.start, state.audio.start, end - self._ear.longest)
        return self._ear.probability(state.audio.read(start, end))

    def _end(self) -> list[GateEvent]:
        self._state.start = None
        return [*self._gate.stop(), TurnJudged(self._gate.judged, is_over=True, confidence=self._state.chance)]
