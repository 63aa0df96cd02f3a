"""WhisperFlow's table 1 and figure 11: what padding costs, what its absence costs, and what a hush word saves.

Clips are transcribed one by one, with Whisper's own decoding; only what stands after their samples differs.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whispertide.methods.short.hush import HushWord
from whispertide.streaming.framing import Hush
from whispertide.tuning.drawing import Curve, Line, scatter
from whispertide.tuning.page import Table
from whispertide.types import SAMPLE_RATE, FloatArray, seconds
from whispertide_lab.evaluation.clips import ABOUT, Clip
from whispertide_lab.evaluation.paper import Outcome, Plot
from whispertide_lab.evaluation.store import Json
from whispertide_lab.evaluation.wer import Counts, align

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.model.engine import Encoded
    from whispertide.model.whisper import WhisperModel
    from whispertide_lab.evaluation.runner import Runner

PAD_SECONDS = (1, 2, 3, 4, 5)
NOISE_BELOW_DB = 30.0  # of the white noise after a clip, measured from the clip's own level
GAINS_DB = (0, -10, -20, -30)
CLIPS, QUICK_CLIPS = 200, 12
RATES, INVENTED = ("WER %", "insertions %"), ("invented words a minute",)


@dataclass(frozen=True, slots=True)
class Way:
    """How a clip ends: `framing`, and `seconds` of something after its samples, or of a hush word."""

    name: str
    seconds: float
    framing: str = "bare"
    noise: bool = False
    hush: HushWord | None = None

    @property
    def content(self) -> str:
        """What tells it from another way of that name."""
        return "" if self.hush is None else hashlib.sha256(self.hush.samples.tobytes()).hexdigest()[:12]

    def padded(self, clip: FloatArray) -> FloatArray:
        """The clip and what is after it."""
        if self.hush is not None or self.framing == "pad30":
            return clip
        length = round(self.seconds * SAMPLE_RATE)
        return _with_noise(clip, length) if self.noise else np.pad(clip, (0, length))


@dataclass(frozen=True, slots=True)
class Padded:
    """A way to end a clip, and what came of it over all clips, `seconds` in all without what was put after them."""

    way: Way
    gflop_per_s: float
    seconds: float
    counts: Counts

    @property
    def rates(self) -> tuple[float, ...]:
        """As `RATES` or, where nothing was said, as `INVENTED` names them."""
        words = self.counts.reference
        if not words:
            return (60 * self.counts.insertions / self.seconds,)
        return 100 * self.counts.errors / words, 100 * self.counts.insertions / words


def ways(transcriber: "Transcriber") -> list[Way]:
    """30 s, none, zeros, noise, and every hush word that lies next to the checkpoint, in our format or as published."""
    folder = transcriber.model.checkpoint.folder
    files = {
        path.stem: path for kind in ("csv", "npz") for path in folder.glob(f"hush-*.{kind}")
    }  # ours before others'
    words = sorted((HushWord.load(path) for path in files.values()), key=lambda word: word.seconds)
    return [
        Way("30 s", 30.0, "pad30"),
        Way("none", 0.0),
        *(Way(f"zeros {s} s", s) for s in PAD_SECONDS),
        *(Way(f"noise {s} s", s, noise=True) for s in PAD_SECONDS),
        *(Way(f"hush {word.seconds:g} s", word.seconds, Hush.kind, hush=word) for word in words),
    ]


def padding_table(runner: "Runner") -> Outcome:
    """WhisperFlow, table 1, and how quiet speech may be for it."""
    found = _paddings(runner)
    return Outcome(tables=(_way_table(found), _gain_table(runner, found)), note=_about_clips(runner))


def padding_figure(runner: "Runner") -> Outcome:
    """WhisperFlow, figure 11: WER and the encoder's work by the length of the padding."""
    rows = _paddings(runner)
    by_name = {row.way.name: row for row in rows}
    curves = [
        _curve(kind, [by_name["none"], *members])
        for kind in ("zeros", "noise", "hush")
        if (members := [row for row in rows if row.way.name.startswith(kind)])
    ]
    drawing = scatter(
        curves,
        x_label="padding (s)",
        y_label=_headings(rows)[0],
        title="errors over padding",
        levels=[Line("padded to 30 s", by_name["30 s"].rates[0])],
    )
    plot = Plot(drawing, "Errors over the length of paddings and hush words")
    return Outcome((_way_table(rows),), (plot,), _about_clips(runner))


def _curve(kind: str, members: Sequence[Padded]) -> Curve:
    return Curve(kind, tuple(row.way.seconds for row in members), tuple(row.rates[0] for row in members))


def _headings(found: Sequence[Padded]) -> tuple[str, ...]:
    return RATES if any(row.counts.reference for row in found) else INVENTED


def _written(row: Padded) -> tuple[str, ...]:
    return tuple(f"{rate:.1f}" for rate in row.rates)


def _way_table(found: Sequence[Padded]) -> Table:
    """The encoder's work and the errors of every way."""
    rows = tuple((row.way.name, f"{row.gflop_per_s:.2f}", *_written(row)) for row in found)
    return Table(("padding", "encoder GFLOP per audio second", *_headings(found)), rows)


def _gain_table(runner: "Runner", as_it_is: Sequence[Padded]) -> Table:
    """Insertions and WER of quieter and quieter clips; the hush word keeps its level."""
    chosen = [row for row in as_it_is if row.way.hush or row.way.name in ("30 s", "none")]
    rows: list[tuple[str, ...]] = []
    for gain in GAINS_DB:
        found = _measure(runner, [row.way for row in chosen], gain) if gain else chosen
        rows += [(f"{gain} dB", row.way.name, *_written(row)) for row in found]
    return Table(("gain of the audio", "padding", *_headings(chosen)), tuple(rows))


def _about_clips(runner: "Runner") -> str:
    return (
        f"{ABOUT}, of {runner.corpus_name}, each transcribed by itself by {runner.models[0]} with beam 5. Padding "
        f"goes after the samples. Noise is {NOISE_BELOW_DB:g} dB below the clip."
    )


def _paddings(runner: "Runner") -> list[Padded]:
    return _measure(runner, ways(runner.transcriber(runner.models[0])), 0)


def _measure(runner: "Runner", chosen: Sequence[Way], gain_db: float) -> list[Padded]:
    transcriber = runner.transcriber(runner.models[0])
    loud = np.float32(10 ** (gain_db / 20))

    def hear(clip: Clip) -> Json:
        heard = [_hear(transcriber, way, clip._replace(samples=clip.samples * loud)) for way in chosen]
        counted = [[asdict(align(clip.words, text, clip.language).words), gflop] for text, gflop in heard]
        return {"seconds": seconds(len(clip.samples)), "ways": counted}

    content = {way.name: way.content for way in chosen}
    name = f"paddings at {gain_db:g} dB"
    found = runner.each_clip(name, hear, usual=CLIPS, quick=QUICK_CLIPS, made_by=(__name__,), **content)
    length = sum(clip["seconds"] for clip in found)
    return [_together(way, [clip["ways"][place] for clip in found], length) for place, way in enumerate(chosen)]


def _together(way: Way, clips: Sequence[Sequence[Any]], length: float) -> Padded:
    counts = sum((Counts(**counts) for counts, _ in clips), Counts())
    return Padded(way, sum(gflop for _, gflop in clips) / length, length, counts)


def _hear(transcriber: "Transcriber", way: Way, clip: Clip) -> tuple[list[str], float]:
    """The words of a clip of at most 30 s, as they are heard, and the encoder's GFLOP."""
    from whispertide.decoding.longform import Transcription
    from whispertide.features import Features
    from whispertide.options import DecodeOptions
    from whispertide.streaming.framing import get_framing
    from whispertide_lab.evaluation.flops import encoder_gflop

    model = transcriber.model
    suffix = None if way.hush is None else way.hush.samples
    features = Features.of([way.padded(clip.samples)], model.dims.n_mels, suffix)
    options = DecodeOptions(language=clip.language, beam=5, word_timestamps=False)
    spent: list[float] = []
    inner = get_framing(way.framing)

    def frame(model: "WhisperModel", mel: FloatArray, *, taps: Sequence[int] = ()) -> "Encoded":
        encoded = inner(model, mel, taps=taps)
        spent.append(encoder_gflop(model.dims, encoded.frames))
        return encoded

    transcription = Transcription(model, features, options, clip.language, seek=0, end=features.frames, frame=frame)
    words: list[str] = []
    while not transcription.done:
        for segment in transcription.next_window():
            words += segment.text.split()
    return words, sum(spent)


def _with_noise(clip: FloatArray, length: int) -> FloatArray:
    level = float(np.sqrt(np.mean(np.square(clip)))) * 10 ** (-NOISE_BELOW_DB / 20)
    # The same noise after every clip, and in every run.
    noise = np.random.default_rng(0).standard_normal(length) * level
    return np.concatenate([clip, noise.astype(np.float32)])
