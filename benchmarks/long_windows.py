"""What long windows cost a checkpoint: `python benchmarks/long_windows.py MODEL ...`.

Talks are transcribed offline twice: each as one recording, in windows of 30 s one after the other, and sentence by
sentence, each sentence cut out in the middle of the pauses around it and padded to a window of its own. Voice, words
and sound are the same, so the difference is what long windows cost. A checkpoint that loses much there flatters every
program that hears short windows (issue `papers`, 4).

Prints the word errors of both, the difference with its 95 % interval over speakers, and one JSON line. With `--silence`
every twelfth sentence is heard after so many seconds of faint noise instead. Needs the laboratory.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whispertide.api import Transcriber, load
from whispertide.types import FloatArray, seconds, to_samples
from whispertide_lab.evaluation.bootstrap import MANY, Ratio, paired_over
from whispertide_lab.evaluation.clips import sentences_in
from whispertide_lab.evaluation.corpora.parts import Excerpt, beginnings_for
from whispertide_lab.evaluation.replay import OFFLINE
from whispertide_lab.evaluation.wer import Counts, align
from whispertide_lab.speech.talks import open_talks
from whispertide_lab.speech.utterance import RefWord, Utterance


def sentences_of(talk: Utterance) -> Iterator[tuple[tuple[RefWord, ...], FloatArray]]:
    """The words of each sentence that is said to its end, and the sound from pause to pause."""
    samples = talk.audio()
    every = list(sentences_in(talk))
    starts = [sentence[0].start or 0 for sentence in every]
    ends = [sentence[-1].end or 0 for sentence in every]
    cuts = [0, *((end + start) // 2 for end, start in zip(ends, starts[1:], strict=False))]
    last = min(len(samples), ends[-1] + (starts[-1] - ends[-2]) // 2 if len(every) > 1 else len(samples))
    for sentence, begin, end in zip(every, cuts, [*cuts[1:], last], strict=True):
        yield sentence, samples[begin:end]


@dataclass(frozen=True, slots=True)
class Heard:
    """The errors in one talk, both ways, over the same words."""

    whole: Counts
    apart: Counts
    sentences: int
    longest_s: float


def text_of(transcriber: Transcriber, sound: FloatArray, language: str) -> list[str]:
    """The words of an offline transcript."""
    segments = transcriber.transcribe_segments(sound, options=replace(OFFLINE, language=language))
    return [word for segment in segments for word in segment.text.split()]


def hear(transcriber: Transcriber, talk: Utterance) -> Heard:
    """Both ways to hear one talk. What comes after its last whole sentence is left out of both."""
    apart, said, sounds = Counts(), [], []
    for sentence, sound in sentences_of(talk):
        words = [word.text for word in sentence]
        apart += align(words, text_of(transcriber, sound, talk.language)).words
        said += words
        sounds.append(sound)
    whole = align(said, text_of(transcriber, np.concatenate(sounds), talk.language)).words
    longest = max(seconds(len(sound)) for sound in sounds)
    return Heard(whole, apart, len(sounds), longest)


def ratio(counts: Counts) -> Ratio:
    """Errors and words of the reference."""
    return counts.errors, counts.reference


def measure(transcriber: Transcriber, name: str, talks: list[Utterance]) -> dict[str, Any]:
    """The row of one checkpoint."""
    heard = [hear(transcriber, talk) for talk in talks]
    sides = ([ratio(each.apart) for each in heard], [ratio(each.whole) for each in heard])
    difference = paired_over([talk.group for talk in talks], *sides)
    row: dict[str, Any] = {
        "model": name,
        "talks": len(heard),
        "sentences": sum(each.sentences for each in heard),
        "words": sum(each.whole.reference for each in heard),
        "longest_sentence_s": round(max(each.longest_s for each in heard), 1),
        "sentences_wer": round(100 * difference.a, 2),
        "talks_wer": round(100 * difference.b, 2),
        "difference": round(100 * difference.difference, 2),
        "interval": [round(100 * difference.low, 2), round(100 * difference.high, 2)],
    }
    print(
        f"{name}: {row['sentences']} sentences alone {row['sentences_wer']} %, {row['talks']} talks whole "
        f"{row['talks_wer']} %: {row['difference']:+} points ({row['interval'][0]} to {row['interval'][1]}, over "
        f"{difference.units} speakers{'' if difference.units >= MANY else ', so too narrow'})",
        flush=True,
    )
    return row


def after_silence(transcriber: Transcriber, name: str, talks: list[Utterance], silence_s: float) -> dict[str, Any]:
    """The word errors of one checkpoint in sentences that begin after a silence of -80 dB."""
    noise = np.random.RandomState(0).standard_normal(to_samples(silence_s)).astype(np.float32) * np.float32(1e-4)
    counts = Counts()
    for sentence, sound in [each for talk in talks for each in sentences_of(talk)][::12]:
        heard = text_of(transcriber, np.concatenate([noise, sound]), "en")
        counts += align([word.text for word in sentence], heard).words
    print(f"{name}: after {silence_s:g} s {100 * (counts.rate or 0):.2f} % of {counts.reference} words", flush=True)
    return {"model": name, "silence_s": silence_s, "wer": counts.rate, "words": counts.reference}


def main() -> None:
    """Measure the checkpoints that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="names or folders of checkpoints")
    parser.add_argument("--seeds", type=int, nargs="+", default=[703, 704], help="of the talks")
    parser.add_argument("--excerpt", type=float, default=1200.0, metavar="SECONDS", help="of each seed")
    parser.add_argument("--pieces", type=int, default=4, metavar="N", help="in how many talks")
    parser.add_argument("--silence", type=float, nargs="+", default=[], metavar="SECONDS", help="before sentences")
    asked = parser.parse_args()
    talks = [
        replace(talk, id=f"{seed}-{talk.id}")
        for seed in asked.seeds
        for talk in Excerpt(
            open_talks(seed=seed, beginnings=beginnings_for(asked.excerpt, asked.pieces)), asked.excerpt, asked.pieces
        ).utterances()
    ]
    rows = []
    for name in asked.models:
        transcriber = load(name, threads=1)
        rows += [after_silence(transcriber, name, talks, each) for each in asked.silence] or [
            measure(transcriber, name, talks)
        ]
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
