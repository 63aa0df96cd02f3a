"""The record of what a recogniser showed when.

Pure values. Every recogniser, ours under any clock or a peer in its own process, leaves the same `Trace`; every score
is a function of a trace and its reference. Times on the clock are seconds from the moment the first sample was
spoken; times in the audio are samples, as everywhere.
"""

from dataclasses import dataclass, field
from typing import Literal

ClockName = Literal["simulated", "processor", "free", "live"]
SIMULATED: ClockName = "simulated"
FREE: ClockName = "free"
PROCESSOR: ClockName = "processor"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a viewer saw from `at_s` on: words appended for good, then the whole guess after all confirmed words."""

    at_s: float
    confirmed: tuple[str, ...] = ()
    hypothesis: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundCost:
    """One round of computing: when it started on the clock, what it took, how much audio it looked at.

    `decoder_runs` are all runs of the decoder, `search_runs` those that looked for text, with `search_rows` hypotheses
    in all; `narrow_runs` of them had one hypothesis, and `prompt_runs` fed a prompt. `cpu_s` is the processor time of
    the whole process meanwhile, over all cores; None where rounds overlapped and nobody can tell. `window_end_s` is how
    far the audio went that it heard; `heard` what it heard after the confirmed words, where it says so word by word;
    `waits` why the first of these that it did not confirm had to wait (`holding`). `features_s` of `encode_s` went into
    the log-mel.
    """

    start_s: float
    seconds: float
    window_s: float
    encode_s: float = 0.0
    decode_s: float = 0.0
    align_s: float = 0.0
    decoder_runs: int = 0
    search_runs: int = 0
    search_rows: int = 0
    narrow_runs: int = 0
    prompt_runs: int = 0
    tokens: int = 0
    encoder_gflop: float = 0.0
    cpu_s: float | None = None
    window_end_s: float = 0.0
    heard: tuple[str, ...] = ()
    waits: str = ""
    features_s: float = 0.0

    @property
    def encoder_s(self) -> float:
        """Seconds of the encoder alone."""
        return self.encode_s - self.features_s


@dataclass(frozen=True, slots=True)
class Trace:
    """The record of one utterance under one recogniser. `shown` is in time order; the last one is after the end."""

    utterance: str
    recogniser: str
    clock: ClockName
    audio_s: float
    shown: tuple[Shown, ...]
    rounds: tuple[RoundCost, ...] = ()
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    energy_j: float | None = None
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """The final text, word by word."""
        return tuple(word for shown in self.shown for word in shown.confirmed)
