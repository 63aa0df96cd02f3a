"""Clips: short pieces of a corpus, each heard by itself. How they are cut, and how many of them are taken."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from whispertide.errors import OptionError
from whispertide.types import SAMPLE_RATE, FloatArray, to_samples
from whispertide_lab.speech.utterance import NOBODY, Corpus, RefWord, Utterance

T = TypeVar("T")
CUT_BY = __name__  # what else counts of the program where something is found in clips
CLIP_S, WHOLE_S = 10.0, 30.0  # of clips that are cut, and of those that cannot be
PAUSE_S, SHORTEST_S = 0.25, 2.0  # what is a pause to cut in, and no clip before one is shorter
TOKENS_PER_S, TOKENS_BESIDES = 8, 8  # nobody speaks faster; more of them are a text that does not end
ABOUT = (
    f"Clips of about {CLIP_S:g} s at most, cut at pauses (whole recordings of at most {WHOLE_S:g} s where nobody knows "
    "the pauses)"
)


class Clip(NamedTuple):
    """Words that are said, the samples, the language, and the speaker or, of nobody, the recording."""

    words: tuple[str, ...]
    samples: FloatArray
    language: str = "en"
    source: str = ""


def limit(samples: int) -> int:
    """Tokens of so many samples, beyond which their text does not end."""
    return TOKENS_BESIDES + round(TOKENS_PER_S * samples / SAMPLE_RATE)


def clips_of(corpus: Corpus, most: int | None) -> list[Clip]:
    """The first so many clips of a corpus; None means all. Raises `OptionError` where it has nothing to cut."""
    found = list(islice((clip for utterance in corpus.utterances() for clip in clips(utterance)), most))
    if not found:
        raise OptionError(
            "expected a corpus whose words have times, to cut it into clips, or whose recordings last no longer than "
            f"{WHOLE_S:g} s; {corpus.name} has neither: use --corpus talks, or --align"
        )
    return found


def clips(utterance: Utterance) -> Iterator[Clip]:
    """Words and samples of clips of at most about 10 s, cut at pauses or, where nothing is said, anywhere; where nobody
    knows exact times the whole recording, if a window holds it, else at the times that a model gave its words.
    """
    known = utterance.words and utterance.group not in NOBODY
    source = utterance.group if known else utterance.id
    yield from (clip._replace(source=source) for clip in _cut(utterance))


def _cut(utterance: Utterance) -> Iterator[Clip]:
    if utterance.exact_times and utterance.words:
        yield from clips_at_pauses(utterance)
    elif not utterance.words:
        audio = utterance.audio()
        yield from (Clip((), audio[at : at + to_samples(CLIP_S)]) for at in range(0, len(audio), to_samples(CLIP_S)))
    elif utterance.seconds <= WHOLE_S:
        yield Clip(tuple(word.text for word in utterance.words), utterance.audio(), utterance.language)
    elif utterance.timed:
        yield from clips_at_pauses(utterance)


def evenly(sentences: Sequence[T], most: int, corpus: Corpus) -> list[T]:
    """At most so many of the sentences of a corpus, from all over it. Raises `OptionError` where it has none."""
    if not sentences:
        raise OptionError(
            f"expected a corpus of sentences with word times, for example talks; {corpus.name} has none: --align makes "
            "word times"
        )
    count = min(len(sentences), most)
    return [sentences[number * len(sentences) // count] for number in range(count)]


def sentences_in(utterance: Utterance) -> Iterator[tuple[RefWord, ...]]:
    """The words of each sentence that ends, or all where the text has no marks; none where words have no times."""
    if not utterance.timed:
        return
    said: list[RefWord] = []
    ended = False
    for word in utterance.words:
        said.append(word)
        if word.text.endswith((".", "?", "!")):
            yield tuple(said)
            said, ended = [], True
    if not ended:
        yield tuple(said)


def cut_sentences(
    utterance: Utterance, around_s: float, shortest_s: float, longest_s: float
) -> Iterator[tuple[FloatArray, tuple[RefWord, ...]]]:
    """Audio and words of each sentence, with `around_s` of what comes before and after it; what is shorter or longer
    then is left out. Times are from the beginning of that audio. None where words have no times.
    """
    found, around = list(sentences_in(utterance)), to_samples(around_s)
    audio = utterance.audio() if found else np.zeros(0, np.float32)
    for said in found:
        begin = max((said[0].start or 0) - around, 0)
        piece = audio[begin : (said[-1].end or 0) + around]
        if to_samples(shortest_s) <= len(piece) <= to_samples(longest_s):
            moved = (replace(word, start=(word.start or 0) - begin, end=(word.end or 0) - begin) for word in said)
            yield piece, tuple(moved)


def clips_at_pauses(utterance: Utterance) -> Iterator[Clip]:
    """Words and samples of stretches cut in the middle of a pause, or between two words where none comes in time."""
    audio = utterance.audio()
    words = [(word.text, word.start or 0, word.end or 0) for word in utterance.words]
    begin, first = 0, 0
    if words and words[0][2] > to_samples(CLIP_S):  # a silence that no clip can hold comes first
        begin = words[0][1] - to_samples(PAUSE_S)
    for place, (_, _, end) in enumerate(words):
        last = place + 1 == len(words)
        after = len(audio) if last else words[place + 1][1]
        following = len(audio) if last else words[place + 1][2]
        paused = after - end >= to_samples(PAUSE_S) and end - begin >= to_samples(SHORTEST_S)
        if last or paused or following - begin > to_samples(CLIP_S):
            cut = len(audio) if last else (end + max(after, end)) // 2
            cut = min(cut, begin + to_samples(CLIP_S) + to_samples(1.0))
            said = tuple(text for text, _, _ in words[first : place + 1])
            yield Clip(said, audio[begin:cut], utterance.language)
            begin, first = max(cut, after - to_samples(PAUSE_S)), place + 1
