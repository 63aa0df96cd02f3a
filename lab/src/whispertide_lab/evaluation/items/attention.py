"""NPUsper's figures 5 and 14 (arXiv 2607.01108): where decoder layers look, and what padded frames do to a decoder.

Figure 5. Sentences with exact word times are fed to the decoder as they were said, with no padding; each token's
attention is that of the query that predicts it, averaged over the heads of a layer. The paper shows one sentence; the
tables are over many.

Figure 14. Windows are padded to the buckets of NPUsper. The encoder's output is the same in both cases; in one the
decoder attends to the padded frames too. It is fed what it says without them, and its likeliest tokens are compared.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from whispertide.checkpoint.tokenizer import token_kinds
from whispertide.decoding.rules import log_softmax
from whispertide.features import log_mel
from whispertide.model.engine import DecodeRequest, required
from whispertide.streaming.framing import BARE, Buckets
from whispertide.tuning.drawing import Curve
from whispertide.tuning.page import Table
from whispertide.types import FRAME_SAMPLES, FloatArray, seconds, to_samples
from whispertide_lab.evaluation import plots, report
from whispertide_lab.evaluation.clips import ABOUT, Clip, cut_sentences, evenly
from whispertide_lab.evaluation.items.guard import decode_clip
from whispertide_lab.evaluation.paper import Outcome, Plot
from whispertide_lab.evaluation.store import Json
from whispertide_lab.evaluation.wer import Counts, align
from whispertide_lab.from_json import built
from whispertide_lab.speech.utterance import RefWord

if TYPE_CHECKING:
    from whispertide.model.engine import Encoded
    from whispertide.model.whisper import WhisperModel
    from whispertide_lab.evaluation.runner import Runner

# --- figure 5 ---------------------------------------------------------------------------------------------------------

SENTENCES, QUICK_SENTENCES = 40, 4
AROUND_S = 0.2  # of audio before and after a sentence
LEAST_S, MOST_S = 2.0, 12.0  # of a sentence
NEAR_S = 0.1  # a peak this close to a token's word lies in it
SHOWN = 5  # tokens of the sentence that is drawn; the last one is punctuation


@dataclass(frozen=True, slots=True)
class Spoken:
    """A token of a sentence: its text, and the word that it begins, in seconds; a mark of punctuation has none."""

    text: str
    span: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Looked:
    """One layer's attention of a sentence: [tokens, frames], rows add up to one."""

    tokens: tuple[Spoken, ...]
    attention: FloatArray


def layer_figure(runner: "Runner") -> Outcome:
    """NPUsper, figure 5."""
    model = runner.transcriber(runner.models[0]).model
    said = _sentences(runner)
    looked = [look(model, audio, words) for audio, words in said]
    layers = range(model.dims.n_text_layer)
    rows = tuple((str(layer + 1), *_sharpness([one[layer] for one in looked])) for layer in layers)
    shown = max(looked, key=lambda one: len(_chosen(one[0].tokens)))
    columns = (
        "decoder layer",
        "words: attention within the word %",
        "words: peak within it %",
        "words: width s",
        "punctuation: width s",
    )
    note = (
        f"{len(said)} sentences of {runner.corpus.name}, {runner.models[0]}, no padding. The attention of the tokens "
        "that begin a word, and of punctuation, mean over a layer's heads. A peak counts as within the word up to "
        f"{1000 * NEAR_S:g} ms from it. Width: how many frames an even attention of the same entropy would take. "
        "Drawn: some tokens of one sentence; bands are the times of their words."
    )
    return Outcome((Table(columns, rows),), tuple(_drawn(shown[layer], layer) for layer in layers), note)


def _sentences(runner: "Runner") -> list[tuple[FloatArray, tuple[RefWord, ...]]]:
    most = QUICK_SENTENCES if runner.quick else SENTENCES
    found = [one for each in runner.corpus.utterances() for one in cut_sentences(each, AROUND_S, LEAST_S, MOST_S)]
    return evenly(found, most, runner.corpus)


def look(model: "WhisperModel", audio: FloatArray, words: Sequence[RefWord]) -> list[Looked]:
    """Where each decoder layer looks while a sentence is fed that was said in `audio`, for the tokens that begin a word
    and for punctuation.
    """
    tokenizer, dims = model.tokenizer, model.dims
    opening = tokenizer.sot_sequence("en" if dims.is_multilingual else None, "transcribe", timestamps=False)
    fed, places = list(opening), list[tuple[int, Spoken]]()
    for word in words:
        tokens = tokenizer.encode(" " + word.text.strip())
        span = (seconds(word.start or 0), seconds(word.end or 0))
        places.append((len(fed) - 1, Spoken(tokenizer.decode(tokens[:1]), span)))
        places += [
            (len(fed) + place - 1, Spoken(tokenizer.decode([token]), None))
            for place, token in enumerate(tokens)
            if place and token_kinds(tokenizer, "en")(token).is_mark
        ]
        fed += tokens
    encoded = BARE(model, log_mel(audio, dims.n_mels))
    heads = [(layer, head) for layer in range(dims.n_text_layer) for head in range(dims.n_text_head)]
    output = model.decoder(encoded, heads).run(DecodeRequest(np.array([fed], np.int64), (len(fed) - 1,)))
    frames = min(encoded.valid_frames, -(-len(audio) // FRAME_SAMPLES))
    attention = required(output.attention, "attention")[:, 0, :, :frames]
    by_layer = attention.reshape(dims.n_text_layer, dims.n_text_head, *attention.shape[1:]).mean(axis=1)
    rows = by_layer[:, [query for query, _ in places]]
    rows = rows / np.maximum(rows.sum(axis=-1, keepdims=True), np.finfo(np.float32).tiny)
    tokens_of = tuple(token for _, token in places)
    return [Looked(tokens_of, layer) for layer in rows]


def _sharpness(looked: Sequence[Looked]) -> tuple[str, ...]:
    """How much of a layer's attention lies within the words, how many peaks do, and how wide it is."""
    within, peaks, wide, marks = list[float](), list[bool](), list[float](), list[float]()
    for one in looked:
        for token, row in zip(one.tokens, one.attention, strict=True):
            if token.span is None:
                marks.append(width_s(row))
                continue
            begin, end = (to_samples(moment) / FRAME_SAMPLES for moment in token.span)
            near = to_samples(NEAR_S) / FRAME_SAMPLES
            within.append(float(row[int(begin) : int(np.ceil(end))].sum()))
            peaks.append(begin - near <= int(row.argmax()) <= end + near)
            wide.append(width_s(row))
    shares = (report.percent(float(np.mean(values))) for values in (within, peaks))
    return (*shares, f"{np.mean(wide):.2f}", f"{np.mean(marks):.2f}" if marks else "–")


def width_s(row: FloatArray) -> float:
    """How long an even attention of the same entropy would be, in seconds."""
    some = row[row > 0].astype(np.float64)
    return seconds(FRAME_SAMPLES) * float(np.exp(-(some * np.log(some)).sum()))


def _chosen(tokens: Sequence[Spoken]) -> list[int]:
    """Words spread over the sentence, then the last punctuation before its end or, where there is none, the end."""
    words = [place for place, token in enumerate(tokens) if token.span is not None]
    marks = [place for place, token in enumerate(tokens) if token.span is None]
    spread = np.linspace(0, len(words) - 1, min(SHOWN - 1, len(words))).round().astype(int)
    return [*(words[place] for place in spread), *(marks[:-1] or marks)[-1:]]


def _drawn(one: Looked, layer: int) -> Plot:
    times = tuple(seconds(FRAME_SAMPLES) * (frame + 0.5) for frame in range(one.attention.shape[1]))
    chosen = _chosen(one.tokens)
    curves = [
        Curve(f"{one.tokens[place].text.strip()!r}", times, tuple(map(float, one.attention[place]))) for place in chosen
    ]
    bands = [one.tokens[place].span for place in chosen]
    title = f"attention of decoder layer {layer + 1}"
    return Plot(plots.over_time(curves, y_label="attention", title=title, bands=bands), title.capitalize())


# --- figure 14 --------------------------------------------------------------------------------------------------------

CLIPS, QUICK_CLIPS = 100, 8
BEST = 3  # tokens that are listed where the decoder sees the padding
STEPS_SHOWN = 5
HIDDEN = Buckets()
MADE_BY = (__name__, decode_clip.__module__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Buckets):
    """The same windows, whose padding the decoder attends to like any audio."""

    kind: ClassVar[str] = "buckets-seen"

    def __call__(self, model: "WhisperModel", mel: FloatArray, *, taps: Sequence[int] = ()) -> "Encoded":
        """Nothing is hidden."""
        return unhidden(Buckets.__call__(self, model, mel, taps=taps))


def unhidden(encoded: "Encoded") -> "Encoded":
    """The same window with its padding in the decoder's sight."""
    return replace(encoded, valid_frames=encoded.frames)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a decode that is fed what it says without the padding: that token, its probability, and the likeliest
    ones with the padding, with theirs.
    """

    token: str
    probability: float
    seen: tuple[str, ...]
    seen_probabilities: tuple[float, ...]

    @property
    def left(self) -> bool:
        """Whether the likeliest token is another one."""
        return self.seen[0] != self.token


@dataclass(frozen=True, slots=True)
class Masked:
    """A clip: its steps, and the errors of its two decodes, each fed what it says itself."""

    steps: tuple[Step, ...]
    hidden: Counts
    seen: Counts


def masking_figure(runner: "Runner") -> Outcome:
    """NPUsper, figure 14."""
    model = runner.transcriber(runner.models[0]).model

    def hear(clip: Clip) -> Json:
        return asdict(compare(model, clip))

    stored = runner.each_clip("padded frames", hear, usual=CLIPS, quick=QUICK_CLIPS, made_by=MADE_BY)
    found = [built(Masked, clip) for clip in stored]
    first = [next((place for place, step in enumerate(one.steps) if step.left), None) for one in found]
    longest = max(len(one.steps) for one in found)
    leave = [sum(at is not None and at <= place for at in first) for place in range(longest)]
    curve = Curve(
        "texts that have left", tuple(map(float, range(1, longest + 1))), tuple(100 * n / len(found) for n in leave)
    )
    drawing = plots.over_time([curve], x_label="decoder step", y_label="%", title="texts that padded frames change")
    kinds = {"hidden": [one.hidden for one in found], "seen": [one.seen for one in found]}
    errors = tuple((name, *_errors(counts)) for name, counts in kinds.items())
    steps = [step for one in found for step in one.steps]
    note = (
        f"{ABOUT}, {len(found)} of {runner.corpus_name}, {runner.models[0]}, padded to 3, 4, 5, 6 or 30 s. Of "
        f"{len(steps)} steps that are fed the text without the padding {sum(step.left for step in steps)} have another "
        f"likeliest token with it; {leave[-1]} of {len(found)} texts leave somewhere."
    )
    tables = [Table(("padded frames", "WER %", "insertions %", "deletions %"), errors, "each fed what it says itself")]
    if (example := next((n for n, at in enumerate(first) if at is not None), None)) is not None:
        tables.append(_example(found[example], first[example] or 0))
    return Outcome(tuple(tables), (Plot(drawing, "Texts that padded frames have changed, by step"),), note)


def _errors(counts: Sequence[Counts]) -> tuple[str, ...]:
    whole = sum(counts, Counts())
    words = max(whole.reference, 1)
    return tuple(report.percent(number / words) for number in (whole.errors, whole.insertions, whole.deletions))


def _example(one: Masked, at: int) -> Table:
    """The steps around the first one that leaves."""
    first = max(at - 2, 0)
    rows = tuple(
        (
            str(place + 1),
            f"{step.token!r} {step.probability:.2f}",
            *(f"{token!r} {value:.2f}" for token, value in zip(step.seen, step.seen_probabilities, strict=True)),
        )
        for place, step in enumerate(one.steps[first : first + STEPS_SHOWN], first)
    )
    columns = ("step", "likeliest without", *(f"with, {place}." for place in range(1, BEST + 1)))
    return Table(columns, rows, "the first text that leaves")


def compare(model: "WhisperModel", clip: Clip) -> Masked:
    """A clip decoded without the padding, and step by step with it; and once with it from the beginning."""
    without, alone = decode_clip(model, HIDDEN, clip), decode_clip(model, Seen(), clip)
    counts = [
        align(clip.words, model.tokenizer.decode(one.tokens).split(), clip.language).words for one in (without, alone)
    ]
    encoded = HIDDEN(model, log_mel(clip.samples, model.dims.n_mels))
    opening = model.tokenizer.sot_sequence(clip.language if model.dims.is_multilingual else None, timestamps=False)
    fed = np.array([[*opening, *without.tokens]], np.int64)
    at = tuple(range(len(opening) - 1, fed.shape[1]))
    suppress = np.zeros(model.dims.n_vocab, np.float32)
    suppress[model.tokenizer.timestamp_begin :] = -np.inf
    request = DecodeRequest(fed, at, need="logits", suppress=suppress)
    hidden, seen = (
        np.exp(log_softmax(required(model.decoder(window).run(request).logits, "logits")[0]))
        for window in (encoded, unhidden(encoded))
    )
    tokens = (*without.tokens, model.tokenizer.eot)
    steps = tuple(_step(model, *row) for row in zip(tokens, hidden, seen, strict=True))
    return Masked(steps, *counts)


def _step(model: "WhisperModel", token: int, hidden: FloatArray, seen: FloatArray) -> Step:
    best = np.argsort(-seen)[:BEST]
    written = tuple(_written(model, int(one)) for one in best)
    return Step(_written(model, token), float(hidden[token]), written, tuple(float(seen[one]) for one in best))


def _written(model: "WhisperModel", token: int) -> str:
    return "end" if token == model.tokenizer.eot else model.tokenizer.decode([token])
