"""What is heard of the language in the first moments: among all, and among a list.

`python benchmarks/languages.py MODEL --list en,es,it,ja,pt,ru people-languages people-utterances/choose`: MODEL as for
--model, then parts of people's recordings as for `bench run -c`; with `people-nonspeech` nobody speaks, and whatever is
certain (`decoding.language.CERTAIN`) is wrong. A folder may follow each part (`people-languages:FOLDER`). Recordings in
several languages do not count. Needs the laboratory.

The second table is about `decoding.language.TURNING`, how much of another language has to be heard before a stream
turns to it. A turn begins with each recording, and with `--every S` also every S seconds in it. "Flips" are turns in
the language that was spoken before (or in which nobody speaks), which a stream would have taken for another one.
"Turned" are turns in a language that was not spoken before, which it would have taken for what it is within 3 s; "took"
is after how much audio, in the mean, and "wrong" those that it took for a third one. "Turns" are those with so much
audio as the bound.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from whispertide import load
from whispertide.decoding.language import CERTAIN, DetectedLanguage, detect_language
from whispertide.features import Features
from whispertide.model.whisper import WhisperModel
from whispertide.types import FloatArray, to_samples
from whispertide_lab.evaluation.corpora.people import open_people
from whispertide_lab.speech.utterance import Utterance

SECONDS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
Heard = Mapping[float, DetectedLanguage]  # what a turn sounds like after so many seconds


@dataclass(slots=True)
class Guesses:
    """So many windows, and of which the guess was right, and certain but wrong."""

    windows: int = 0
    right: int = 0
    misled: int = 0

    def add(self, language: str | None, heard: str, probability: float) -> None:
        """Count one."""
        self.windows += 1
        self.right += heard == language
        self.misled += heard != language and probability >= CERTAIN


@dataclass(frozen=True, slots=True)
class Turn:
    """What is heard in the first moments of a turn in a language (None: nobody speaks), among all and among a list."""

    language: str | None
    every: Heard
    few: Heard


def hear(model: WhisperModel, samples: FloatArray, language: str | None, listed: Sequence[str]) -> Turn:
    """Hear windows that begin with `samples` [n] and are padded; those that would be longer than these are left out."""
    every, few = dict[float, DetectedLanguage](), dict[float, DetectedLanguage]()
    for seconds in (one for one in SECONDS if to_samples(one) <= len(samples)):
        encoded = model.encode(Features.of([samples[: to_samples(seconds)]], model.dims.n_mels).opening())
        every[seconds], few[seconds] = detect_language(model, encoded), detect_language(model, encoded, listed)
    return Turn(language, every, few)


def guesses(turns: Iterable[Turn], seconds: float) -> tuple[Guesses, Guesses]:
    """Those among all languages and among the listed ones, by the first `seconds` of each turn."""
    every, few = Guesses(), Guesses()
    for turn in turns:
        for counted, heard in ((every, turn.every), (few, turn.few)):
            if found := heard.get(seconds):
                counted.add(turn.language, found.language, found.probability)
    return every, few


def turned_to(heard: Heard, before: str | None, bound: float) -> tuple[float, str] | None:
    """When a stream, in which `before` was spoken, is certain of another language, and of which; None: it is not."""
    for seconds, found in sorted(heard.items()):
        if seconds >= bound and found.language != before and found.probability >= CERTAIN:
            return seconds, found.language
    return None


def turns_by(
    bound: float, turns: Sequence[Turn], listed: Sequence[str], *, among_all: bool
) -> tuple[int, int, str, int]:
    """Flips, turned, seconds that it took, and wrong ones; see above."""
    flips, wrong, took = 0, 0, list[float]()
    for turn in turns:
        heard = turn.every if among_all else turn.few
        flips += turned_to(heard, turn.language, bound) is not None if turn.language else False
        before = next(code for code in listed if code != turn.language)
        found = turned_to(heard, before, bound)
        if found and found[1] == turn.language:
            took.append(found[0])
        elif found and turn.language:
            wrong += 1
        elif found:
            flips += 1
    return flips, len(took), f"{fmean(took):.2f}" if took else "", wrong


def lasting(turns: Sequence[Turn], bound: float) -> int:
    """How many turns have so much audio as the bound; no stream turns in the others."""
    return sum(any(seconds >= bound for seconds in turn.every) for turn in turns)


def recordings(
    utterances: Iterable[Utterance], known: Sequence[str], *, kind: str
) -> Iterator[tuple[FloatArray, str | None]]:
    """The samples and the language of each recording, None where nobody speaks; without those in several languages
    ("en+de"), of which no guess is right.
    """
    for one in utterances:
        if "nonspeech" in kind:
            yield one.audio(), None
        elif one.language in known:
            yield one.audio(), one.language


def parted(
    spoken: Iterable[tuple[FloatArray, str | None]], every_s: float | None
) -> Iterator[tuple[FloatArray, str | None]]:
    """Each recording, and what is left of it at every so many seconds, while that is a second or more."""
    for samples, language in spoken:
        step = len(samples) if every_s is None else to_samples(every_s)
        for start in range(0, max(len(samples) - to_samples(1), 1), max(step, 1)):
            yield samples[start:], language


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, listen, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("corpora", nargs="+", metavar="people-PART/HALF[:FOLDER]")
    parser.add_argument("--list", default="en,de", help="codes between commas")
    parser.add_argument("--every", type=float, metavar="S", help="a turn begins every S seconds, too")
    given = parser.parse_args(arguments)
    model, listed = load(given.model, threads=1).model, given.list.split(",")
    heard: dict[str, list[Turn]] = {}
    print("| | seconds | windows | right of all | certain, wrong | right of the list | certain, wrong |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for corpus in given.corpora:
        kind, _, folder = corpus.partition(":")
        spoken = recordings(open_people(kind, folder).utterances(), model.tokenizer.languages, kind=kind)
        turns = heard[kind] = [
            hear(model, samples, language, listed) for samples, language in parted(spoken, given.every)
        ]
        for seconds in SECONDS:
            every, few = guesses(turns, seconds)
            counted = (every.windows, every.right, every.misled, few.right, few.misled)
            print(f"| {kind} | {seconds:g} | {' | '.join(map(str, counted))} |", flush=True)
    columns = " | ".join(f"{among}: flips | turned | took, s | wrong" for among in ("of all", "of the list"))
    print(f"\n| | bound, s | turns | {columns} |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for kind, turns in heard.items():
        for bound in SECONDS:
            counts = [turns_by(bound, turns, listed, among_all=among_all) for among_all in (True, False)]
            figures = (lasting(turns, bound), *(one for four in counts for one in four))
            print(f"| {kind} | {bound:g} | {' | '.join(map(str, figures))} |")


if __name__ == "__main__":
    main()
