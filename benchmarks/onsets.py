"""The first two words after each pause: how many are wrong or made up, streamed and offline, with the same weights.

`python benchmarks/onsets.py MODEL people-readings/choose people-accents/choose --set max_revision_rate=0.01`: MODEL as
for --model, then parts of people's recordings as for `bench run -c`. Recordings of less than half a minute are joined,
a dozen of a folder at a time, with half a second of zeros after each, so that nearly all have speech before them. A
pause is what the voice gate says; `--aligner` places the words of the reference. Nothing waits for computing, so the
text does not depend on the machine's speed. Needs the laboratory.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from whispertide import load
from whispertide.api import Transcriber
from whispertide.audio.vad import SpeechGate, SpeechStarted
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe, parse_overrides
from whispertide.types import SAMPLE_RATE, FloatArray, join_words, to_samples
from whispertide_lab.evaluation.aligned import aligned
from whispertide_lab.evaluation.corpora.people import open_people
from whispertide_lab.evaluation.wer import Alignment, Counts, align
from whispertide_lab.speech.utterance import RefWord, Utterance

FIRST = 2  # words after a pause
SHORT_S = 30.0
DOZEN = 12
APART = SAMPLE_RATE // 2
BLOCK = SAMPLE_RATE // 50
SPOKEN = SAMPLE_RATE // 8  # a word that ends no later than that after the onset was said before it


@dataclass(frozen=True, slots=True)
class Spoken:
    """A recording, or several joined, and its words with their times."""

    samples: FloatArray
    words: Sequence[RefWord]


@dataclass(frozen=True, slots=True)
class Firsts:
    """Of `words` first words so many are `wrong` or missing; so many more were `made` up before them."""

    words: int = 0
    wrong: int = 0
    made: int = 0

    def __add__(self, other: "Firsts") -> "Firsts":
        return Firsts(self.words + other.words, self.wrong + other.wrong, self.made + other.made)


def joined(parts: Iterable[Spoken]) -> Spoken:
    """One after the other, with `APART` of zeros after each."""
    samples: list[FloatArray] = []
    words: list[RefWord] = []
    at = 0
    for part in parts:
        words += [word if word.end is None else _moved(word, at) for word in part.words]
        samples += [part.samples, np.zeros(APART, np.float32)]
        at += len(part.samples) + APART
    return Spoken(np.concatenate(samples), words)


def _moved(word: RefWord, by: int) -> RefWord:
    return replace(word, start=(word.start or 0) + by, end=(word.end or 0) + by)


def recordings(utterances: Iterable[Utterance], aligner: Transcriber, name: str) -> Iterator[Spoken]:
    """The long ones as they are, the short ones joined."""
    folders = groupby(utterances, lambda one: (one.seconds >= SHORT_S, one.id.partition("/")[0]))
    for (is_long, _), found in folders:
        placed = [Spoken(one.audio(), aligned(one, aligner, name).words) for one in found]
        if is_long:
            yield from placed
        else:
            yield from (joined(placed[at : at + DOZEN]) for at in range(0, len(placed), DOZEN))


def onsets(samples: FloatArray) -> list[int]:
    """Where the gate hears speech begin after a pause, in samples."""
    gate = SpeechGate()
    least = to_samples(gate.options.min_speech)
    return [event.decided_at - least for event in gate.feed(samples) if isinstance(event, SpeechStarted)]


def first_words(words: Sequence[RefWord], begun: Sequence[int]) -> list[int]:
    """The index of the first word after each onset; no two onsets share their `FIRST` words."""
    found: list[int] = []
    for at, until in zip(begun, [*begun[1:], None], strict=True):
        first = next((n for n, word in enumerate(words) if word.end is not None and word.end >= at + SPOKEN), None)
        if first is None or (until is not None and (words[first].start or 0) > until):
            continue
        if not found or first >= found[-1] + FIRST:
            found.append(first)
    return found


def judged(found: Alignment, firsts: Sequence[int], count: int) -> Firsts:
    """How the words of `firsts` and those after them were heard, of a reference of `count` words."""
    heard, counted = found.matched_words(), found.counted_words()
    total = Firsts()
    for first in firsts:
        those = [n for n in range(first, min(first + FIRST, count)) if n in counted]
        before = max((n for n in heard if n < first), default=-1)
        after = min((n for n in heard if n >= first), default=count)
        made = 0
        if after < first + FIRST and after in heard:  # else what was written in their place is wrong, not made up
            made = max(0, heard[after] - heard.get(before, -1) - (after - before))
        total += Firsts(len(those), sum(n not in heard for n in those), made)
    return total


def streamed(model: Transcriber, recipe: Recipe, samples: FloatArray) -> list[str]:
    """The words that a session confirms."""
    session = model.session(recipe)
    for at in range(0, len(samples), BLOCK):
        session.push(samples[at : at + BLOCK])
    session.finish()
    return join_words(session.transcript.words).split()


def row(name: str, firsts: Firsts, words: Counts) -> str:
    """One line of the table."""
    return f"| {name} | {firsts.words} | {firsts.wrong} | {firsts.made} | {words.reference} | {words.rate or 0:.2%} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, hear, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("corpora", nargs="+", metavar="people-PART/HALF[:FOLDER]")
    parser.add_argument("-r", "--recipe", default="tide")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--aligner", default="base")
    options = parser.parse_args(arguments)
    recipe = parse_overrides(get_recipe(options.recipe), options.set)
    model, aligner = load(options.model, threads=1), load(options.aligner, threads=1)
    firsts = {"offline": Firsts(), recipe.name: Firsts()}
    words = {"offline": Counts(), recipe.name: Counts()}
    for corpus in options.corpora:
        kind, _, folder = corpus.partition(":")
        for one in recordings(open_people(kind, folder).utterances(), aligner, options.aligner):
            begun = first_words(one.words, onsets(one.samples))
            texts = {
                "offline": model.transcribe(one.samples).text.split(),
                recipe.name: streamed(model, recipe, one.samples),
            }
            for name, text in texts.items():
                found = align([word.text for word in one.words], text)
                firsts[name] += judged(found, begun, len(one.words))
                words[name] += found.words
    print("| | first words | wrong | made up | words | word errors |\n|---|---:|---:|---:|---:|---:|")
    for name, counts in words.items():
        print(row(name, firsts[name], counts))


if __name__ == "__main__":
    main()
