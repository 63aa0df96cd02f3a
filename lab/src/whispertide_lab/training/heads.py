"""Which cross-attention heads follow the speech: chosen by how well word times come out of them.

The score of a set of heads, in milliseconds (lower is better), is the very thing they are for: time warping over their
sharpened attention (`decoding.token_words.warp`), teacher-forced with the right text, gives a start and an end of every
word; the score is the mean absolute error of both against the synthesizer's exact times, each error counted as half a
second at most, so that a lost sentence weighs as such and not by its length. Every head is scored alone; then the best
one gets company as long as the score falls: one head after the other, the one that helps most. OpenAI lists heads
"highly correlated to the word-level timing" (openai/whisper, __init__.py) without saying how they were found.

Half of the windows choose, the other half checks. Both are reserved sentences in trained voices, three to a window,
other ones than a model card has. Needs no torch.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whispertide.atomic import write_text, writing
from whispertide.checkpoint import hub
from whispertide.checkpoint.cache import cache_dir
from whispertide.checkpoint.download import hub_cache
from whispertide.checkpoint.generation import Head
from whispertide.checkpoint.json_file import read_json
from whispertide.decoding.longform import pad30
from whispertide.decoding.token_words import WordTiming, merge_punctuation, sharpen, warp, word_timings
from whispertide.errors import CheckpointError
from whispertide.features import log_mel
from whispertide.model.engine import DecodeRequest, Encoded, required
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, FloatArray, IntArray
from whispertide_lab.speech.sentences import open_sentences
from whispertide_lab.speech.utterance import RefWord, Utterance
from whispertide_lab.speech.voices import TRAINED

SEED = 41  # not that of a model card: these are other sentences
CAP_S = 0.5
CANDIDATES = 16  # heads that may get into a set: the best ones alone
MOST = 10  # heads in a set
GAIN = 0.01  # of the score; a head that brings less stays out
GENERATION = "generation_config.json"
_PER_VOICE = 12
_PER_WINDOW = 3


@dataclass(frozen=True, slots=True)
class TimedWindow:
    """Some sentences of one voice after each other: 16 kHz samples [n], and their words with exact times."""

    samples: FloatArray
    words: tuple[RefWord, ...]


@dataclass(frozen=True, slots=True)
class Attended:
    """What some heads attend to in a window, ready for time warping.

    scores  sharpened attention by head, each [tokens + 1, frames]; the last row is that of the end of text
    spans   of each word start and end in samples; `tokens` of each word, and its text as the tokenizer has it
    """

    scores: dict[Head, FloatArray]
    spans: tuple[tuple[int, int], ...]
    words: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """Errors of word starts and ends in milliseconds. `score` is the mean of what is capped; see above."""

    score: float
    median: float
    p90: float
    words: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The outcome. `single` has every head's score alone on the windows that choose; `before` and `after` are the
    heads that the checkpoint used and the chosen ones on the windows that check.
    """

    heads: tuple[Head, ...]
    single: dict[Head, Timing]
    previous: tuple[Head, ...]
    before: Timing
    after: Timing

    @property
    def is_better(self) -> bool:
        """Whether the chosen heads are at least as good where they were not chosen."""
        return self.after.score <= self.before.score


def choose_heads(model: WhisperModel, windows: Sequence[TimedWindow]) -> Choice:
    """Choose alignment heads with the first half of the windows, check with the other half. Nothing is written."""
    dims = model.dims
    every = [(layer, head) for layer in range(dims.n_text_layer) for head in range(dims.n_text_head)]
    half = len(windows) // 2
    choosing, checking = windows[:half], windows[half:]
    single = _alone(model, choosing, every)
    candidates = sorted(every, key=lambda head: single[head].score)[:CANDIDATES]
    heads = grow([attend(model, window, candidates) for window in choosing], candidates)
    previous = model.alignment_heads
    seen = [attend(model, window, sorted({*heads, *previous})) for window in checking]
    return Choice(heads, single, previous, timing(seen, previous), timing(seen, heads))


def grow(seen: Sequence[Attended], candidates: Sequence[Head]) -> tuple[Head, ...]:
    """The best of `candidates`, then the one that lowers the score most, and so on; sorted."""
    chosen: list[Head] = []
    score = float("inf")
    while len(chosen) < min(MOST, len(candidates)):
        tried = {head: timing(seen, [*chosen, head]).score for head in candidates if head not in chosen}
        best = min(tried, key=lambda head: tried[head])
        if tried[best] > score * (1 - GAIN):
            break
        chosen.append(best)
        score = tried[best]
    return tuple(sorted(chosen))


def timing(seen: Sequence[Attended], heads: Sequence[Head]) -> Timing:
    """How far the word times by these heads are from the exact ones."""
    return _summary([_errors(window, heads) for window in seen])


def _summary(windows: Sequence[FloatArray]) -> Timing:
    errors = np.concatenate(windows) / SAMPLE_RATE
    median, p90 = np.percentile(errors, [50, 90])
    score = float(np.minimum(errors, CAP_S).mean())
    return Timing(1000 * score, 1000 * float(median), 1000 * float(p90), len(errors) // 2)


def _errors(window: Attended, heads: Sequence[Head]) -> FloatArray:
    """Absolute errors of starts and ends in samples, [2 * words]."""
    mean = np.mean([window.scores[head] for head in heads], axis=0)
    times = np.array([(word.start, word.end) for word in _timed(window, warp(-mean))], np.float32)
    return np.abs(times - np.array(window.spans, np.float32)).ravel()


def _timed(window: Attended, starts: IntArray) -> list[WordTiming]:
    certain = np.ones(len(starts) - 1, np.float32)  # probabilities are not needed here
    return merge_punctuation(word_timings(window.words, window.tokens, starts, certain))


def _alone(model: WhisperModel, windows: Sequence[TimedWindow], heads: Sequence[Head]) -> dict[Head, Timing]:
    """Every head by itself, a layer at a time: all heads of a large model at once would not fit into memory.

    Encoding takes longest, so each window is encoded once for all layers.
    """
    errors: dict[Head, list[FloatArray]] = {head: [] for head in heads}
    for window in windows:
        encoded = _encode(model, window)
        for layer in sorted({layer for layer, _ in heads}):
            some = [head for head in heads if head[0] == layer]
            seen = attend(model, window, some, encoded)
            for head in some:
                errors[head].append(_errors(seen, [head]))
    return {head: _summary(found) for head, found in errors.items()}


def _encode(model: WhisperModel, window: TimedWindow) -> Encoded:
    return pad30(model, log_mel(window.samples, model.dims.n_mels))


def attend(model: WhisperModel, window: TimedWindow, heads: Sequence[Head], encoded: Encoded | None = None) -> Attended:
    """Force the right text through the model and keep what `heads` attend to, as `locate_words` would see it.

    `encoded` is the window, if it has been encoded. Raises `CheckpointError` where the tokenizer does not give the
    text back word by word.
    """
    tokenizer = model.tokenizer
    text = tokenizer.encode(" " + " ".join(word.text for word in window.words))
    start = tokenizer.sot_sequence("en", "transcribe", False)
    request = DecodeRequest(np.array([[*start, *text, tokenizer.eot]], np.int64), (0,))
    output = model.decoder(encoded or _encode(model, window), heads=heads).run(request)
    frames = len(window.samples) // FRAME_SAMPLES
    attention = required(output.attention, "attention")[:, 0, :, :frames]
    first = len(start) - 1  # the query at no_timestamps predicts the first text token
    words, tokens = tokenizer.split_to_word_tokens([*text, tokenizer.eot], "en")
    seen = Attended(
        scores={head: sharpen(attention[at : at + 1], first)[:-1] for at, head in enumerate(heads)},
        spans=tuple((word.start or 0, word.end or 0) for word in window.words),
        words=tuple(words[:-1]),
        tokens=tuple(tuple(group) for group in tokens[:-1]),
    )
    count = len(_timed(seen, np.arange(len(text) + 1)))
    if count != len(window.words):
        raise CheckpointError(f"expected {len(window.words)} words from the tokenizer of {model.name}; got {count}")
    return seen


# --- speech to choose by ----------------------------------------------------------------------------------------------


def timed_windows() -> list[TimedWindow]:
    """Sentences in trained voices, three to a window, voices in turn. Raises `CorpusError` without synthesizers."""
    corpus = open_sentences("grammar", TRAINED, _PER_VOICE, seed=SEED)
    voices: dict[str, list[Utterance]] = {}
    for utterance in corpus.utterances():
        voices.setdefault(utterance.group, []).append(utterance)
    return [
        joined(said[at : at + _PER_WINDOW])
        for at in range(0, _PER_VOICE - _PER_WINDOW + 1, _PER_WINDOW)
        for said in voices.values()
    ]


def joined(utterances: Sequence[Utterance]) -> TimedWindow:
    """Utterances with exact times, one after the other."""
    samples = [utterance.audio() for utterance in utterances]
    offsets = np.cumsum([0, *map(len, samples)])
    words = [
        RefWord(word.text, int(offset) + (word.start or 0), int(offset) + (word.end or 0))
        for utterance, offset in zip(utterances, offsets, strict=False)
        for word in utterance.words
    ]
    return TimedWindow(np.concatenate(samples), tuple(words))


# --- the checkpoint ---------------------------------------------------------------------------------------------------


def own_folder(name: str) -> Path:
    """The folder of a checkpoint that may be changed: a local one, or the bundled one.

    Raises `CheckpointError` for a downloaded one, which other programs share, and for a `.pt`, which has no place for
    alignment heads.
    """
    place = hub.resolve(name)
    shared = hub_cache(), cache_dir()
    if place.is_file() or any(place.resolve().is_relative_to(folder.resolve()) for folder in shared):
        raise CheckpointError(
            f"expected a folder in Hugging Face layout that is yours to change; {name} is {place}: copy it first, or "
            "only look at the scores (--dry-run)"
        )
    return place


def write_heads(folder: Path, heads: Sequence[Head]) -> None:
    """Put `heads` into the folder's generation_config.json, whole or not at all. Raises `OutputError`."""
    path = folder / GENERATION
    content = read_json(path) if path.is_file() else {}
    content["alignment_heads"] = [list(head) for head in heads]
    with writing(path):
        write_text(path, json.dumps(content, indent=2) + "\n")


def load_for_heads(name: str, announce: Callable[[str], None] | None = None) -> WhisperModel:
    """The model at fp32: the attention of a quantised one is a little blurred."""
    return load_model(name, EngineOptions(precision="fp32"), announce=announce)


def table_rows(choice: Choice) -> Iterator[tuple[str, ...]]:
    """Layer, head, score, median, 90th percentile in milliseconds, and whether chosen, best first."""
    for head, found in sorted(choice.single.items(), key=lambda item: item[1].score):
        figures = (f"{value:.0f}" for value in (found.score, found.median, found.p90))
        yield str(head[0]), str(head[1]), *figures, "chosen" if head in choice.heads else ""
