"""What is heard of the language in the first moments: among all, and among a list.

`python benchmarks/languages.py MODEL --list en,es,it,ja,pt,ru people-languages people-utterances/choose`: MODEL as for
--model, then parts of people's recordings as for `bench run -c`; with `people-nonspeech` nobody speaks, and whatever is
certain (`decoding.language.CERTAIN`) is wrong. A folder may follow each part (`people-languages:FOLDER`). Recordings in
several languages do not count. Needs the laboratory.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from whispertide import load
from whispertide.decoding.language import CERTAIN, detect_language
from whispertide.features import Features
from whispertide.model.whisper import WhisperModel
from whispertide.types import FloatArray, to_samples
from whispertide_lab.evaluation.corpora.people import open_people
from whispertide_lab.speech.utterance import Utterance

SECONDS = (0.5, 1.0, 1.5, 2.0, 3.0)


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


def guesses(
    model: WhisperModel, recordings: Iterable[tuple[FloatArray, str | None]], listed: Sequence[str], seconds: float
) -> tuple[Guesses, Guesses]:
    """Those among all languages and among the listed ones, by the first `seconds` of each recording, padded."""
    every, few = Guesses(), Guesses()
    for samples, language in recordings:
        encoded = model.encode(Features.of([samples[: to_samples(seconds)]], model.dims.n_mels).opening())
        for counted, among in ((every, ()), (few, listed)):
            found = detect_language(model, encoded, among)
            counted.add(language, found.language, found.probability)
    return every, few


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, listen, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("corpora", nargs="+", metavar="people-PART/HALF[:FOLDER]")
    parser.add_argument("--list", default="en,de", help="codes between commas")
    given = parser.parse_args(arguments)
    model, listed = load(given.model, threads=1).model, given.list.split(",")
    print("| | seconds | windows | right of all | certain, wrong | right of the list | certain, wrong |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for corpus in given.corpora:
        kind, _, folder = corpus.partition(":")
        spoken = list(recordings(open_people(kind, folder).utterances(), model.tokenizer.languages, kind=kind))
        for seconds in SECONDS:
            every, few = guesses(model, spoken, listed, seconds)
            counted = (every.windows, every.right, every.misled, few.right, few.misled)
            print(f"| {kind} | {seconds:g} | {' | '.join(map(str, counted))} |", flush=True)


if __name__ == "__main__":
    main()
