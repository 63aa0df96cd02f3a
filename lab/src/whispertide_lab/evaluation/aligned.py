"""Word times for a corpus that has none: the reference text is placed in its audio by forced alignment with a model.

The right text is put through the decoder, and time warping over the cross-attention says when each word was said
(`decoding.alignment`). A recording of at most 30 s is one stretch. A longer one is transcribed first; it is cut where
two neighbouring words of the reference were both heard, so that each stretch fits into a window and its text is known.

Such times are a model's opinion: a word ends where the next one begins, so pauses count as words, and where a model
hears badly the times are bad as well. Utterances say so (`aligned_by`), and no claim about latency may rest on them.
Where some recordings of the same source have exact times, the model places their words, too, and it is told how far off
they are (`PlacementError`).
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from whispertide.api import Transcriber
from whispertide.checkpoint.cache import cache_path, read_note, write_note
from whispertide.decoding.alignment import locate_words
from whispertide.decoding.longform import pad30
from whispertide.decoding.token_words import WordTiming, merge_punctuation
from whispertide.decoding.word_repairs import shorten_at_sentence_ends, typical_duration
from whispertide.features import Features
from whispertide.options import DecodeOptions
from whispertide.types import FRAME_SAMPLES, N_SAMPLES, SAMPLE_RATE, FloatArray, Span, Word
from whispertide_lab.evaluation.wer import align, join_written
from whispertide_lab.speech.utterance import Corpus, Recordings, RefWord, Utterance

VERSION = 1  # counts up whenever the same model gives other times


@dataclass(frozen=True, slots=True)
class PlacementError:
    """Ends of words as a model places them, against hand-labelled ones, in seconds: the mean (negative: too early), and
    the median and 90th percentile of its amount. Of `words` words in `recordings` so many were `placed`.
    """

    recordings: int
    words: int
    placed: int
    mean_s: float
    median_s: float
    p90_s: float


@dataclass(frozen=True, slots=True)
class AlignedCorpus(Recordings):
    """A corpus with the times that a model gave its words; `of` is the corpus without them, `error` how far off the
    model is where the right times are known.
    """

    of: Corpus
    error: PlacementError | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """The words [first, last) of a reference, which are said within `span` of its recording."""

    first: int
    last: int
    span: Span


def lacks_times(utterance: Utterance) -> bool:
    """Whether there are words, and nobody knows exactly when they are said."""
    return bool(utterance.words) and not utterance.exact_times


def align_corpus(
    corpus: Corpus,
    transcriber: Transcriber,
    model: str,
    languages: Collection[str],
    progress: Callable[[float], None],
    labelled: Sequence[Utterance] = (),
) -> AlignedCorpus:
    """Place the words of every utterance that lacks times and is in one of `languages`, those that `model` writes.

    `progress` is told the seconds of each. `labelled` are utterances with exact times, on which the model is checked.
    Raises `AudioFileError` where a recording cannot be read.
    """
    items = []
    for utterance in corpus.utterances():
        if lacks_times(utterance):
            if utterance.language in languages:
                utterance = aligned(utterance, transcriber, model)
            progress(utterance.seconds)
        items.append(utterance)
    content = transcriber.model.content_hash
    facts = repr((corpus.hash, content, transcriber.model.options.precision, VERSION))
    digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
    known = [utterance for utterance in labelled if utterance.exact_times and utterance.language in languages]
    error = placement_error(known, [aligned(utterance, transcriber, model) for utterance in known])
    return AlignedCorpus(f"{corpus.name}-aligned-by-{model}", digest, tuple(items), corpus, error)


def placement_error(known: Sequence[Utterance], placed: Sequence[Utterance]) -> PlacementError | None:
    """How far the ends of words of `placed` are from those of `known`, the same utterances with their exact times.

    None where no word was placed.
    """
    pairs = [
        both for right, own in zip(known, placed, strict=True) for both in zip(right.words, own.words, strict=True)
    ]
    off = [(own.end - right.end) / SAMPLE_RATE for right, own in pairs if own.end is not None and right.end is not None]
    if not off:
        return None
    median, p90 = (float(value) for value in np.percentile(np.abs(off), [50, 90]))
    return PlacementError(len(known), len(pairs), len(off), float(np.mean(off)), median, p90)


def aligned(utterance: Utterance, transcriber: Transcriber, model: str) -> Utterance:
    """The utterance with a time for each word that could be placed. Times are kept in the cache."""
    samples, model_of = utterance.audio(), transcriber.model
    texts = [word.text for word in utterance.words]
    digest = hashlib.sha256(samples.tobytes())
    key = {"version": VERSION, "content_hash": model_of.content_hash, "precision": model_of.options.precision}
    digest.update(repr((texts, utterance.language, key)).encode())
    note = cache_path("aligned", f"{digest.hexdigest()[:32]}.json")
    spans = _kept(read_note(note, key), len(texts))
    if spans is None:
        spans = _located(utterance, texts, samples, transcriber)
        with suppress(OSError):  # a read-only or full cache costs time only
            write_note(note, key, {"spans": [span and (span.start, span.end) for span in spans]})
    words = tuple(
        RefWord(text) if span is None else RefWord(text, span.start, span.end)
        for text, span in zip(texts, spans, strict=True)
    )
    return replace(utterance, words=words, exact_times=False, aligned_by=model)


def _kept(note: Mapping[str, Any] | None, count: int) -> list[Span | None] | None:
    """The spans of so many words in a note; None where it has none, or is damaged."""
    try:
        spans = [None if span is None else Span(*map(int, span)) for span in (note or {})["spans"]]
    except (KeyError, TypeError, ValueError):
        return None
    return spans if len(spans) == count else None


def _located(
    utterance: Utterance, texts: Sequence[str], samples: FloatArray, transcriber: Transcriber
) -> list[Span | None]:
    """The span of each word, in samples of the recording; None where it could not be placed."""
    spans: list[Span | None] = [None] * len(texts)
    for stretch in _stretches_of(utterance, samples, transcriber):
        start, part = stretch.span.start, samples[stretch.span.start : stretch.span.end]
        placed = _placed(texts[stretch.first : stretch.last], part, utterance.language, transcriber)
        for index, span in enumerate(placed, stretch.first):
            if span is not None:
                spans[index] = Span(start + span.start, start + span.end)
    return spans


def _stretches_of(utterance: Utterance, samples: FloatArray, transcriber: Transcriber) -> list[Stretch]:
    count = len(utterance.words)
    if len(samples) <= N_SAMPLES:
        return [Stretch(0, count, Span(0, len(samples)))]
    options = DecodeOptions(language=utterance.language)
    heard = [word for part in transcriber.transcribe_segments(samples, options=options) for word in part.words]
    found = align([word.text for word in utterance.words], [word.text.strip() for word in heard], utterance.language)
    return stretches(count, {said: heard[at] for said, at in found.matched_words().items()}, len(samples))


def stretches(count: int, heard: Mapping[int, Word], length: int) -> list[Stretch]:
    """Cut a reference of `count` words and a recording of `length` samples into stretches of at most 30 s.

    `heard` says when some words were heard. Words for which no short enough stretch can be found are in none.
    """
    cuts = [(0, 0)]
    for index in sorted(heard):
        if index + 1 in heard:
            middle = (heard[index].end + heard[index + 1].start) // 2
            # Times of a model need not rise; a cut that would go back is none.
            if cuts[-1][1] < middle < length:
                cuts.append((index + 1, middle))
    cuts.append((count, length))
    found = []
    at = 0
    while at + 1 < len(cuts):
        (first, start), to = cuts[at], at + 1
        while to + 1 < len(cuts) and cuts[to + 1][1] - start <= N_SAMPLES:
            to += 1
        last, end = cuts[to]
        if first < last and end - start <= N_SAMPLES:
            found.append(Stretch(first, last, Span(start, end)))
        at = to
    return found


def _placed(texts: Sequence[str], samples: FloatArray, language: str, transcriber: Transcriber) -> list[Span | None]:
    """Where each of the words lies in the samples, of which there are at most 30 s."""
    model = transcriber.model
    features = Features.of((samples,), model.dims.n_mels)
    encoded = pad30(model, features.window(0, features.frames))
    timings = locate_words(
        model,
        encoded,
        model.tokenizer.encode(" " + join_written(texts, language)),
        language=language if model.dims.is_multilingual else None,
        frames=len(samples) // FRAME_SAMPLES,
    )
    timings = merge_punctuation(shorten_at_sentence_ends(timings, 2 * typical_duration(timings)))
    return spans_of(texts, timings)


def spans_of(texts: Sequence[str], timings: Sequence[WordTiming]) -> list[Span | None]:
    """The span of each written word, from timings whose words may be shorter or longer than those written.

    Both are the same letters but for spaces; where they are not, and after the last timing, there are no spans.
    """
    pieces = ["".join(timing.text.split()) for timing in timings]
    whole, said = "".join(texts), "".join(pieces)
    if not whole.startswith(said):
        return [None] * len(texts)
    owner = [number for number, piece in enumerate(pieces) for _ in piece]
    spans: list[Span | None] = []
    for first, last in pairwise(accumulate(map(len, texts), initial=0)):
        if first == last or last > len(owner):
            spans.append(None)
            continue
        start, end = timings[owner[first]].start, timings[owner[last - 1]].end
        spans.append(Span(start, end) if start < end else None)
    return spans
