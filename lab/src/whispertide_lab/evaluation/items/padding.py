"""WhisperFlow's table 1 and figure 11, and what it says of the length of hush words: what padding costs, what its
absence costs, and what a hush word saves.

Every way hears the same clips, one by one, with the same single decode: greedy, without timestamps, as hush words are
trained, without text before it and without a second try. Only what stands after the samples differs. A hush word is a
part of the sound, as in the paper: Whisper's floor counts from the loudest cell of both. Then come some ways as
Whisper's own program decodes, which goes on where a text ends early and tries again at higher temperatures; and merged
padding and the checkpoint's adapter for short windows, which the paper has not.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from whispertide.methods.short.hush import HushWord
from whispertide.streaming.framing import BARE, MEL_PER_S, PAD30, Framing, Merged
from whispertide.tuning.drawing import Curve, Line, scatter
from whispertide.tuning.page import Table
from whispertide.types import N_SAMPLES, SAMPLE_RATE, FloatArray, seconds
from whispertide_lab.evaluation.bootstrap import UNITS, Ratio, paired_over
from whispertide_lab.evaluation.clips import ABOUT, Clip, limit
from whispertide_lab.evaluation.paper import Outcome, Plot
from whispertide_lab.evaluation.store import Json
from whispertide_lab.evaluation.wer import Counts, align, join_written

if TYPE_CHECKING:
    from whispertide.decoding.longform import Frame
    from whispertide.model.engine import Encoded
    from whispertide.model.whisper import WhisperModel
    from whispertide_lab.evaluation.runner import Runner

ZEROS_S = (0.5, 1, 2, 5)  # as long as hush words, and the longest of the paper
NOISE_S = (5,)
NOISE_BELOW_DB = 30.0  # of the white noise after a clip, measured from the clip's own level
CLIPS, QUICK_CLIPS = 200, 12
ENDLESS = "texts without end"
RATES = ("WER %", "more than padded, with 95 %", "insertions %", ENDLESS, "marks in 100 words")
MARKS = frozenset(".,?!;:")  # WER does not count them, and a hush word may cost them
INVENTED = ("invented words a minute", ENDLESS)  # where nothing was said


@dataclass(frozen=True, slots=True)
class Way:
    """How a clip ends: `framing`, and `seconds` of silence, noise or a hush word after its samples.

    adapted  heard by the checkpoint with its adapter for short windows
    looped   decoded as by Whisper's program: with timestamps, beam 5 and fallbacks, until all audio is dealt with
    """

    name: str
    seconds: float = 0.0
    framing: Framing = BARE
    noise: bool = False
    hush: HushWord | None = None
    adapted: bool = False
    looped: bool = False

    @property
    def kind(self) -> str:
        """The curve of figure 11 that it is a point of; empty for the others."""
        if self.framing is not BARE or self.adapted or self.looped or not self.seconds:
            return ""
        return "hush" if self.hush else "noise" if self.noise else "zeros"

    def padded(self, clip: FloatArray) -> FloatArray:
        """The clip and what is after it, as far as a window holds both."""
        if self.hush is not None:
            after = self.hush.samples
        else:
            length = round(self.seconds * SAMPLE_RATE)
            after = _noise(clip, length) if self.noise else np.zeros(length, np.float32)
        return np.concatenate([clip, after])[:N_SAMPLES]


@dataclass(frozen=True, slots=True)
class Padded:
    """A way to end a clip, and what came of it over all clips, `seconds` in all without what was put after them.

    errors   of each clip, and its words
    sources  of the clips
    endless  texts that do not end; not known of Whisper's whole program
    marks    of punctuation in 100 words that were heard
    loss     with a hush word, nats per token of the right text and its end; else 0
    """

    way: Way
    gflop_per_s: float
    seconds: float
    counts: Counts
    errors: tuple[Ratio, ...]
    sources: tuple[str, ...]
    endless: int
    marks: float
    loss: float

    def rates(self, padded: "Padded") -> tuple[str, ...]:
        """As `RATES` or, where nothing was said, as `INVENTED` names them."""
        words, ended = self.counts.reference, "–" if self.way.looped else f"{self.endless} of {len(self.errors)}"
        if not words:
            return f"{self.rate:.1f}", ended
        more = "" if self is padded else paired_over(self.sources, padded.errors, self.errors).text(100.0)
        return f"{self.rate:.1f}", more, f"{100 * self.counts.insertions / words:.1f}", ended, f"{self.marks:.1f}"

    @property
    def rate(self) -> float:
        """Word errors in 100 words or, where nothing was said, invented words a minute."""
        words = self.counts.reference
        return 100 * self.counts.errors / words if words else 60 * self.counts.insertions / self.seconds


def ways(model: "WhisperModel", words: Sequence[HushWord]) -> list[Way]:
    """Padded, bare, with zeros, noise and each hush word after the clip; then what the paper has not."""
    padded, hushed = Way("30 s", framing=PAD30), [Way(f"hush {w.seconds:g} s", w.seconds, hush=w) for w in words]
    zeros = [Way(f"zeros {s:g} s", s) for s in ZEROS_S]
    noise = [Way(f"noise {s:g} s", s, noise=True) for s in NOISE_S]
    none, one_second = Way("none"), zeros[ZEROS_S.index(1)]
    as_published = (padded, none, one_second, zeros[-1], *noise, *hushed[:1])
    looped = [replace(way, name=f"{way.name}, whole program", looped=True) for way in as_published]
    adapted = [replace(way, name=f"adapter, {way.name}", adapted=True) for way in (none, *hushed[:1])]
    return [
        padded,
        none,
        *zeros,
        *noise,
        *hushed,
        *looped,
        Way("merged padding", framing=Merged()),
        *(adapted if model.is_adapted else ()),
    ]


def padding_table(runner: "Runner") -> Outcome:
    """WhisperFlow, table 1: errors and the encoder's work by padding."""
    return Outcome(tables=(_way_table(_paddings(runner)),), note=_about_clips(runner))


def padding_figure(runner: "Runner") -> Outcome:
    """WhisperFlow, figure 11: WER and the encoder's work by the length of the padding."""
    rows = _paddings(runner)
    padded, none = rows[:2]
    curves = [
        _curve(kind, [none, *members])
        for kind in ("zeros", "noise", "hush")
        if (members := [row for row in rows if row.way.kind == kind])
    ]
    drawing = scatter(
        curves,
        x_label="padding (s)",
        y_label=_headings(padded)[0],
        title="errors over padding",
        levels=[Line("padded to 30 s", padded.rate)],
    )
    plot = Plot(drawing, "Errors over the length of paddings and hush words")
    return Outcome((_way_table(rows),), (plot,), _about_clips(runner))


def length_table(runner: "Runner") -> Outcome:
    """WhisperFlow, section 4: hush words by their length. Errors are compared with those of the shortest."""
    found = [row for row in _paddings(runner) if row.way.kind == "hush"]
    rows = tuple((f"{row.way.seconds:g} s", f"{row.loss:.3f}", *row.rates(found[0])) for row in found)
    rates = [rate.replace("padded", "the shortest") for rate in (_headings(found[0]) if found else ())]
    columns = ("hush word", "nats a token of the right text", *rates)
    return Outcome(tables=(Table(columns, rows),) if found else (), note=_about_clips(runner))


def _curve(kind: str, members: Sequence[Padded]) -> Curve:
    return Curve(kind, tuple(row.way.seconds for row in members), tuple(row.rate for row in members))


def _headings(row: Padded) -> tuple[str, ...]:
    return RATES if row.counts.reference else INVENTED


def _way_table(found: Sequence[Padded]) -> Table:
    """The encoder's work and the errors of every way."""
    rows = tuple((row.way.name, f"{row.gflop_per_s:.2f}", *row.rates(found[0])) for row in found)
    return Table(("padding", "encoder GFLOP per audio second", *_headings(found[0])), rows)


def _about_clips(runner: "Runner") -> str:
    return (
        f"{ABOUT}, of {runner.corpus_name}, each heard by itself by {runner.models[0]} in one greedy decode without "
        "timestamps, or by Whisper's whole program: with timestamps, beam 5 and fallbacks. A text that has more tokens "
        "than anybody says in that time does not end, and its words count. "
        f"Padding goes after the samples. Noise is {NOISE_BELOW_DB:g} dB below the clip. Intervals are by a bootstrap "
        f"over {UNITS}."
    )


def _hush_words(runner: "Runner") -> list[HushWord]:
    """Those that were asked for, or that lie next to the checkpoint; the shortest first."""
    folder = runner.transcriber(runner.models[0]).model.checkpoint.folder
    words = runner.setup.hush or tuple(map(HushWord.load, sorted(folder.glob("hush-*.npz"))))
    return sorted(words, key=lambda word: word.seconds)


def _paddings(runner: "Runner") -> list[Padded]:
    model = runner.transcriber(runner.models[0]).model
    chosen = ways(model, _hush_words(runner))

    def hear(clip: Clip) -> Json:
        heard = [_hear(model, way, clip) for way in chosen]
        return {"seconds": seconds(len(clip.samples)), "source": clip.source, "ways": heard}

    found = runner.each_clip("paddings", hear, usual=CLIPS, quick=QUICK_CLIPS, made_by=(__name__,))
    length, sources = sum(clip["seconds"] for clip in found), tuple(clip["source"] for clip in found)
    return [
        _together(way, [clip["ways"][place] for clip in found], length, sources) for place, way in enumerate(chosen)
    ]


def _together(way: Way, clips: Sequence[Any], length: float, sources: tuple[str, ...]) -> Padded:
    counts = [Counts(**clip["counts"]) for clip in clips]
    text = " ".join(clip["text"] for clip in clips)
    return Padded(
        way=way,
        gflop_per_s=sum(clip["gflop"] for clip in clips) / length,
        seconds=length,
        counts=sum(counts, Counts()),
        errors=tuple((float(one.errors), float(one.reference)) for one in counts),
        sources=sources,
        endless=sum(clip["endless"] for clip in clips),
        marks=100 * sum(letter in MARKS for letter in text) / (len(text.split()) or 1),
        loss=sum(clip["nats"] for clip in clips) / (sum(clip["tokens"] for clip in clips) or 1),
    )


def _hear(model: "WhisperModel", way: Way, clip: Clip) -> Json:
    """What is heard of a clip of at most 30 s, its errors, and the encoder's GFLOP."""
    from whispertide.features import log_mel
    from whispertide_lab.evaluation.flops import encoder_gflop

    hearing = model.short if way.adapted else model
    windows: list[Encoded] = []

    def frame(model: "WhisperModel", mel: FloatArray, *, taps: Sequence[int] = ()) -> "Encoded":
        windows.append(way.framing(model, mel, taps=taps))
        return windows[-1]

    samples = way.padded(clip.samples)
    if way.looped:
        text, ends = _whole(hearing, samples, clip, frame), True  # not known
    else:
        text, ends = _once(hearing, frame(hearing, log_mel(samples, model.dims.n_mels)), clip)
    nats, tokens = _loss(hearing, windows[0], clip) if way.hush else (0.0, 0)
    return {
        "text": text,
        "counts": asdict(align(clip.words, text.split(), clip.language).words),
        "gflop": sum(encoder_gflop(model.dims, encoded.frames) for encoded in windows),
        "endless": not ends,
        "nats": nats,
        "tokens": tokens,
    }


def _once(model: "WhisperModel", encoded: "Encoded", clip: Clip) -> tuple[str, bool]:
    """The text of one greedy decode, and whether it ends."""
    from whispertide.decoding.window import decode_window
    from whispertide.options import DecodeOptions

    options = DecodeOptions(timestamps=False, temperatures=(0.0,), max_tokens=limit(len(clip.samples)))
    result = decode_window(model, encoded, options, language=clip.language)
    return result.text, result.stop == "end_of_text"


def _whole(model: "WhisperModel", samples: FloatArray, clip: Clip, frame: "Frame") -> str:
    """The text as Whisper's program makes it of the samples. The last second is not heard by itself (whisper.cpp)."""
    from whispertide.decoding.longform import Transcription
    from whispertide.features import Features
    from whispertide.options import DecodeOptions

    features = Features.of([samples], model.dims.n_mels)
    options = DecodeOptions(language=clip.language, beam=5, word_timestamps=False)
    transcription = Transcription(model, features, options, clip.language, seek=0, end=features.frames, frame=frame)
    segments = []
    while transcription.end - transcription.seek >= MEL_PER_S:
        segments += transcription.next_window()
    return " ".join(segment.text.strip() for segment in segments)


def _loss(model: "WhisperModel", encoded: "Encoded", clip: Clip) -> tuple[float, int]:
    """Nats of the clip's own words and their end, each token after the right ones, and the number of tokens."""
    from whispertide.decoding.alignment import chosen_probabilities
    from whispertide.model.engine import DecodeRequest, required

    start = model.tokenizer.sot_sequence(clip.language, "transcribe", False)
    text = model.tokenizer.encode(f" {join_written(clip.words, clip.language)}")[: model.dims.n_text_ctx - len(start)]
    wanted = [*text, model.tokenizer.eot]
    first = len(start) - 1  # the query at no_timestamps predicts the first text token
    request = DecodeRequest(
        np.array([[*start, *text]], np.int64), tuple(range(first, first + len(wanted))), need="logits"
    )
    logits = required(model.decoder(encoded).run(request).logits, "logits")[0]
    probabilities = np.maximum(chosen_probabilities(logits, wanted), np.finfo(np.float32).tiny)
    return float(-np.log(probabilities).sum()), len(wanted)


def _noise(clip: FloatArray, length: int) -> FloatArray:
    level = float(np.sqrt(np.mean(np.square(clip)))) * 10 ** (-NOISE_BELOW_DB / 20)
    # The same noise after every clip, and in every run.
    return (np.random.default_rng(0).standard_normal(length) * level).astype(np.float32)
