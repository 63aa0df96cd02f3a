"""A voice gate in front of a stepped peer, as whisper_streaming and SimulStreaming have it (`--vac` of both).

Only what lies between two pauses reaches the recogniser. Each such utterance begins with an empty buffer, and a pause
ends it with a last round, so that all its words are committed. whisper_streaming itself has no such round: what came
after its last step is never heard. Here it is heard. Source: Macháček et al., 2023, and their published code.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from whispertide.types import SAMPLE_RATE, FloatArray, to_samples
from whispertide_lab.evaluation.peers.clocks import WARM_UP, Stepped, Words

BLOCK_S = 0.04  # what the gate is given at a time
_PRE_ROLL = SAMPLE_RATE  # kept while nobody speaks, because the gate says late that somebody does


class Gate(Protocol):
    """Silero's iterator: takes samples, says where speech starts and ends, counted from the first sample of all."""

    def __call__(self, samples: FloatArray) -> Sequence[dict[str, int]]:
        """The events in these samples, in order: {"start": sample} or {"end": sample}."""


class Gated:
    """A recogniser that hears speech alone, a new one for each utterance; a round needs `step_s` of new speech."""

    def __init__(self, gate: Gate, begin: Callable[[], Stepped], step_s: float) -> None:
        self._gate, self._begin, self._step = gate, begin, max(1, to_samples(step_s))
        self._open: Stepped | None = None
        self._done: Words = ()
        self._shown: tuple[Words, Words] = ((), ())  # of the open utterance
        self._kept: FloatArray = np.zeros(0, np.float32)  # not heard yet; ends with the newest sample
        self._received = 0

    def feed(self, samples: FloatArray) -> tuple[Words, Words]:
        """Take more audio, and run the rounds that are due: all words committed so far, and the guess after them."""
        self._kept = np.append(self._kept, samples)
        self._received += len(samples)
        for event in self._gate(samples):
            if "start" in event and self._open is None:
                self._take_until(event["start"])
                self._open = self._begin()
            elif "end" in event and self._open is not None:
                self._end(self._open, self._take_until(event["end"]))
        if self._open is None:
            self._kept = self._kept[-_PRE_ROLL:]
        elif len(self._kept) >= self._step:
            self._shown = self._open.feed(self._take_until(self._received))
        committed, guess = self._shown
        return self._done + committed, guess

    def finish(self) -> Words:
        """The audio is over: all words."""
        if self._open is not None:
            self._end(self._open, self._take_until(self._received))
        return self._done

    def _end(self, stepped: Stepped, samples: FloatArray) -> None:
        if len(samples):
            stepped.feed(samples)
        self._done += stepped.finish()
        self._open, self._shown = None, ((), ())

    def _take_until(self, sample: int) -> FloatArray:
        """What was kept of the audio before `sample`; it is kept no longer."""
        count = int(np.clip(sample - (self._received - len(self._kept)), 0, len(self._kept)))
        taken, self._kept = self._kept[:count], self._kept[count:]
        return taken


def silero() -> Callable[[], Gate]:
    """What gives each recording its gate: WhisperLiveKit's copy of Silero with the settings of whisper_streaming, where
    half a second ends an utterance, and 100 ms are kept around it. All share one network, loaded and warm, as in
    WhisperLiveKit's server.
    """
    from whisperlivekit.silero_vad_iterator import FixedVADIterator, OnnxWrapper, load_onnx_session

    session = load_onnx_session()

    def gate() -> Any:
        return FixedVADIterator(OnnxWrapper(session), min_silence_duration_ms=500, speech_pad_ms=100)

    gate()(WARM_UP)
    return gate
