"""What passes between this program and a peer's own process: a job going in, traces coming out, all as JSON.

Both sides import this module, so it needs nothing but numpy and the standard library. It does not know how a peer is
started, nor any peer.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from whispertide.types import FloatArray, seconds
from whispertide_lab.evaluation.energy import Meter
from whispertide_lab.evaluation.trace import ClockName, RoundCost, Shown, Trace
from whispertide_lab.from_json import built

Setting = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Job:
    """What a peer is to do.

    model      folder of the checkpoint in Hugging Face layout
    converted  where it is in the peer's own format
    audio      one file of float32 samples (.npy) per utterance
    output     where one trace per line goes
    """

    recogniser: str
    model: str
    converted: str
    utterances: tuple[str, ...]
    audio: tuple[str, ...]
    settings: Mapping[str, Setting]
    output: str

    def write(self, path: Path) -> None:
        """Save as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Job":
        """Load what `write` saved."""
        found: Job = built(cls, json.loads(path.read_text(encoding="utf-8")))
        return found

    def number(self, name: str) -> float:
        """A setting that is a number."""
        return float(self.settings[name])

    @property
    def clock(self) -> ClockName:
        """The setting of that name: by which clock a stepped peer is run."""
        found: ClockName = self.settings["clock"]  # type: ignore[assignment]  # the runner knows no others
        return found

    def text(self, name: str) -> str:
        """A setting that is a text."""
        return str(self.settings[name])


@dataclass(frozen=True, slots=True)
class PeerResult:
    """What a peer made of one recording."""

    clock: ClockName
    shown: tuple[Shown, ...]
    rounds: tuple[RoundCost, ...] = ()


Recogniser = Callable[[FloatArray], PeerResult]  # samples [n] at 16 kHz, mono


def serve(load: Callable[[Job], Recogniser]) -> None:
    """The main program of a peer: `python -m ... JOB`. Loading and warming up is in no measurement, as with ours."""
    job = Job.read(Path(sys.argv[1]))
    recognise = load(job)
    with Path(job.output).open("w", encoding="utf-8") as file:
        for utterance, audio in zip(job.utterances, job.audio, strict=True):
            samples = np.load(audio)
            meter = Meter()
            heard = recognise(samples)
            usage = meter.read()
            trace = Trace(
                utterance=utterance,
                recogniser=job.recogniser,
                clock=heard.clock,
                audio_s=seconds(len(samples)),
                shown=heard.shown,
                rounds=heard.rounds,
                settings={name: str(value) for name, value in job.settings.items()},
                **asdict(usage),
            )
            file.write(dump_trace(trace) + "\n")
            file.flush()


def dump_trace(trace: Trace) -> str:
    """A trace as one line of JSON."""
    return json.dumps(asdict(trace), ensure_ascii=False)


def parse_trace(line: str) -> Trace:
    """The trace that `dump_trace` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    found: Trace = built(Trace, json.loads(line))
    return found
