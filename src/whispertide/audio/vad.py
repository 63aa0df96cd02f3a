"""Voice activity detection: cuts a stream into utterances, so that silence costs nothing and yields nothing.

`SpeechGate` takes samples in any portions and says where utterances start and stop, in absolute samples. It judges
blocks of 512 samples counted from where it began, so the portions do not change the result; it does no I/O, has no
clock, and its whole state can be copied. It knows nothing of words, rounds or models other than the voice detector it
is given.

Silero detects speech well down to about -50 dBFS. Quieter input is raised before it is judged, by a slow gain that
looks only backward; loud input is left alone, and what the gate lets through is always the original audio.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from whispertide.audio.silero import BLOCK, load_silero
from whispertide.errors import OptionError
from whispertide.types import SAMPLE_RATE, FloatArray, to_samples

# The gain aims at this level for the loudest recent block, and raises by no more than _MAX_GAIN (factors, not dB).
_TARGET_LEVEL = 10 ** (-30 / 20)
_MAX_GAIN = 10 ** (30 / 20)
# The level estimate falls by 15 dB per second of quiet: a pause between words hardly moves the gain, and two seconds
# after a loud speaker a distant one is heard. Slower loses the second speaker's first words, faster raises breaths.
_LEVEL_DECAY = 10 ** (-15 / 20 * BLOCK / SAMPLE_RATE)
# A cry, a sneeze or a tick sounds like a voice for a sixth of a second, words for longer (lab/log).
LEAST_VOICE_S = 0.192


@dataclass(frozen=True, slots=True)
class GateOptions:
    """The settings of the gate. Times are seconds, because a person sets them.

    threshold    probability at or above which a block may start an utterance
    release      probability below which a block of an utterance counts as silence (hysteresis: at most `threshold`)
    min_speech   that much speech in a row starts an utterance
    min_voice    that much in a row makes speech certain; an utterance with less is a click
    min_silence  that much silence in a row ends it (Whisper-Streaming's voice controller: 0.5 s)
    pre_roll     audio kept from before the first speech block (the same: 1 s)
    post_pad     audio kept after the last speech block; at most `min_silence`
    """

    threshold: float = 0.5
    release: float = 0.35
    min_speech: float = 0.096  # three blocks
    min_voice: float = LEAST_VOICE_S
    min_silence: float = 0.5
    pre_roll: float = 1.0
    post_pad: float = 0.3

    def __post_init__(self) -> None:
        if not 0.0 < self.release <= self.threshold < 1.0:
            raise OptionError(
                f"expected 0 < release <= threshold < 1 for the voice gate; got release {self.release} "
                f"and threshold {self.threshold}"
            )
        for name in ("min_speech", "min_voice", "min_silence", "pre_roll", "post_pad"):
            value = getattr(self, name)
            if not 0.0 <= value <= 30.0:
                raise OptionError(f"expected {name} between 0 and 30 seconds for the voice gate; got {value}")
        if self.post_pad > self.min_silence:
            raise OptionError(
                f"expected post_pad <= min_silence for the voice gate (an utterance cannot end after the moment at "
                f"which its end is decided); got {self.post_pad} and {self.min_silence}"
            )


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """An utterance began: its audio starts at `start` (pre-roll included); known once `decided_at` was received.

    `is_certain`: it is no click; else `SpeechCertain` follows, or it was one. `onset`: the first sample that sounds
    like a voice, where that is known.
    """

    start: int
    decided_at: int
    is_certain: bool = True
    onset: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SpeechCertain:
    """The utterance that has begun is no click: known once `decided_at` was received."""

    decided_at: int


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """An utterance is over: its audio ends at `end` (padding included); known once `decided_at` was received."""

    end: int
    decided_at: int


@dataclass(frozen=True, slots=True)
class TurnJudged:
    """A turn is over, or may be (`is_over` False): known once `decided_at` was received. `confidence`: how likely.

    Only from gates that hear more than pauses (`streaming.turn_gate`). Speech may start again after either.
    """

    decided_at: int
    is_over: bool
    confidence: float


GateEvent = SpeechStarted | SpeechCertain | SpeechStopped | TurnJudged


class _VoiceDetector(Protocol):
    """Judges one block at a time; `state` is the one returned for the block before, None at the start."""

    def step(self, block: FloatArray, state: Any) -> tuple[float, Any]:
        """The probability of speech in `block` ([512]), and the state after it."""


class Gate(Protocol):
    """Cuts the stream into utterances. Portions do not change the result."""

    @property
    def needed_from(self) -> int:
        """The first sample that an utterance starting now could still claim."""

    @property
    def quiet(self) -> int:
        """Samples of silence at the end of the open utterance; 0 during speech, or if none is open."""

    @property
    def pause_end(self) -> int | None:
        """The end of the open utterance if no more speech comes; None during speech, or if none is open."""

    def feed(self, samples: FloatArray) -> list[GateEvent]:
        """Judge the next samples."""

    def finish(self) -> list[GateEvent]:
        """End the open utterance, if any, at the newest sample; feeding may go on."""

    def snapshot(self) -> Any:
        """The state, for `restore`."""

    def restore(self, state: Any) -> None: ...


@dataclass(slots=True)
class GateState:
    """The state of a gate. A shallow copy is a full one: arrays and detector states are replaced, never changed.

    judged    everything before this sample has been decided on
    pending   samples from `judged` on that do not fill a block yet
    detector  the voice detector's own state
    level     estimate of the recent loudness, for the gain
    is_open   inside an utterance
    is_certain  the open utterance is no click
    onset     first sample of the run of speech that may start an utterance or make it certain; None = no such run
    speech_end  end of the last speech block of the open utterance
    floor     end of the previous utterance: no pre-roll reaches after it
    """

    judged: int = 0
    pending: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    detector: Any = None
    level: float = _TARGET_LEVEL
    is_open: bool = False
    is_certain: bool = False
    onset: int | None = None
    speech_end: int = 0
    floor: int = 0

    def copy(self) -> "GateState":
        return replace(self)


class SpeechGate:
    """Cuts 16 kHz mono float32 audio into utterances.

        gate = SpeechGate()
        for event in gate.feed(samples): ...
        for event in gate.finish(): ...

    Starts and stops alternate, and between them an utterance may become certain; utterances do not overlap. Between
    feeds at most one block (32 ms) is kept waiting.
    """

    def __init__(self, options: GateOptions | None = None, detector: _VoiceDetector | None = None) -> None:
        """`detector` defaults to Silero; loading it raises `CheckpointError` if its weights are not there."""
        self.options = options or GateOptions()
        self._detector = detector or load_silero()
        self._min_speech = to_samples(self.options.min_speech)
        self._min_voice = to_samples(self.options.min_voice)
        self._min_silence = to_samples(self.options.min_silence)
        self._pre_roll = to_samples(self.options.pre_roll)
        self._post_pad = to_samples(self.options.post_pad)
        self._state = GateState()

    @property
    def received(self) -> int:
        """The end of the audio that was fed."""
        return self._state.judged + len(self._state.pending)

    @property
    def judged(self) -> int:
        """The end of the audio that was judged."""
        return self._state.judged

    @property
    def is_open(self) -> bool:
        """True inside an utterance."""
        return self._state.is_open

    @property
    def is_certain(self) -> bool:
        """True inside an utterance that is no click."""
        return self._state.is_open and self._state.is_certain

    @property
    def needed_from(self) -> int:
        """The first sample that an utterance starting now could still claim: audio before it may be dropped."""
        state = self._state
        earliest = state.judged if state.onset is None or state.is_open else state.onset
        return max(state.floor, earliest - self._pre_roll)

    @property
    def quiet(self) -> int:
        """Samples of silence at the end of the open utterance, up to `judged`; 0 if none is open."""
        return self._state.judged - self._state.speech_end if self._state.is_open else 0

    @property
    def pause_end(self) -> int | None:
        """The end of the open utterance if no more speech comes, once that much is judged; else None."""
        end = self._state.speech_end + self._post_pad
        return end if self._state.is_open and end <= self._state.judged else None

    def feed(self, samples: FloatArray) -> list[GateEvent]:
        """Judge the next `samples` ([n], finite, any n); returns the starts and stops of utterances."""
        state = self._state
        # Often nothing waits, and then the portion is not copied.
        audio = np.concatenate((state.pending, samples)) if len(state.pending) else samples
        whole = len(audio) - len(audio) % BLOCK
        events: list[GateEvent] = []
        for at in range(0, whole, BLOCK):
            speech = self._probability(audio[at : at + BLOCK])
            state.judged += BLOCK
            event = self._while_open(speech) if state.is_open else self._while_closed(speech)
            if event is not None:
                events.append(event)
        # A copy: a view would keep the whole portion alive.
        state.pending = audio[whole:].copy()
        return events

    def finish(self) -> list[GateEvent]:
        """End the open utterance, if any, at the newest sample. Feeding may go on afterwards, with a new utterance."""
        state, end = self._state, self.received
        if not state.is_open:
            return []
        # What is cut off while it sounds like a voice is no click: nobody knows whether it would have gone on.
        certain = [SpeechCertain(end)] if state.onset is not None else []
        # The pending samples belong to this utterance, too: the next one must not claim them again.
        state.is_open, state.onset, state.floor = False, None, end
        return [*certain, SpeechStopped(end, end)]

    def stop(self) -> list[GateEvent]:
        """End the open utterance, if any, in the pause that it has, however short, as if it were long enough."""
        state = self._state
        if not state.is_open:
            return []
        # Never after `judged`: the padding may be longer than the pause.
        end = min(state.speech_end + self._post_pad, state.judged)
        state.is_open, state.onset, state.floor = False, None, end
        return [SpeechStopped(end, state.judged)]

    def snapshot(self) -> GateState:
        """The state, to be handed to `restore` of a gate with the same options and detector."""
        return self._state.copy()

    def restore(self, state: GateState) -> None:
        """Go on from `state`, exactly as if nothing had happened since its snapshot."""
        self._state = state.copy()

    def _probability(self, block: FloatArray) -> float:
        """The detector's probability for `block`, raised to a level that it is made for."""
        state = self._state
        state.level = max(_deviation(block), state.level * _LEVEL_DECAY, _TARGET_LEVEL / _MAX_GAIN)
        # Louder input is left alone; the level is bounded below, and with it the gain by _MAX_GAIN.
        gain = max(_TARGET_LEVEL / state.level, 1.0)
        probability, state.detector = self._detector.step(block * np.float32(gain), state.detector)
        return probability

    def _run(self, speech: float) -> int:
        """The samples of speech in a row that the newest block ends; 0: it is no speech."""
        state, options = self._state, self.options
        # Hysteresis: a block above the threshold begins a run, and those above the release go on with it.
        if speech < (options.threshold if state.onset is None else options.release):
            state.onset = None
            return 0
        if state.onset is None:
            # `judged` already counts this block.
            state.onset = state.judged - BLOCK
        return state.judged - state.onset

    def _while_closed(self, speech: float) -> GateEvent | None:
        state, run = self._state, self._run(speech)
        if state.onset is None or run < self._min_speech:
            return None
        onset, start = state.onset, max(state.floor, state.onset - self._pre_roll)
        state.is_open, state.speech_end = True, state.judged
        self._make_certain(run)
        return SpeechStarted(start, state.judged, state.is_certain, onset)

    def _while_open(self, speech: float) -> GateEvent | None:
        state = self._state
        if not state.is_certain and self._make_certain(self._run(speech)):
            state.speech_end = state.judged
            return SpeechCertain(state.judged)
        if speech >= self.options.release:
            state.speech_end = state.judged
            return None
        return self.stop()[0] if state.judged - state.speech_end >= self._min_silence else None

    def _make_certain(self, run: int) -> bool:
        """True if so much speech in a row proves that the open utterance is no click."""
        state = self._state
        state.is_certain = run >= self._min_voice
        if state.is_certain:
            state.onset = None
        return state.is_certain


def _deviation(block: FloatArray) -> float:
    """The standard deviation of `block` [BLOCK], and not its root mean square: a constant offset is no sound.

    The same number as `block.std()`, in a third of the time.
    """
    centred = block - np.add.reduce(block) / np.float32(BLOCK)
    return float(np.sqrt(np.add.reduce(centred * centred) / np.float32(BLOCK)))
