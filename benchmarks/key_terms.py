"""Key terms on people's voices: how many of them are found with and without, and how many nobody said.

`python benchmarks/key_terms.py MODEL people-readings/choose people-utterances/choose`: MODEL as for --model, then parts
of people's recordings as for `bench run -c`. The terms are the `rare_words` and `keywords` of the manifest. Each
recording is heard without terms, with its own ("own"), and with those of all recordings together ("all"), nearly all of
which nobody says in it. The row "own" is of those recordings alone that have terms, so its words are fewer. A term is
false where the text has it more often than the reference. `--prompt` shows all of them to the model as a prompt
instead, as was done before. Nothing waits for computing. Needs the laboratory.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from whispertide import load
from whispertide.api import Transcriber
from whispertide.decoding import key_terms
from whispertide.options import DecodeOptions
from whispertide.types import SAMPLE_RATE, FloatArray, join_words
from whispertide_lab.evaluation.corpora.manifest import Scored, scored_in
from whispertide_lab.evaluation.corpora.people import half_of, part_of_people, place_of_people, speaker_of
from whispertide_lab.evaluation.wer import Counts, align, join_written, normalise

BLOCK = SAMPLE_RATE // 2
Hear = Callable[[FloatArray, DecodeOptions], str]


@dataclass(slots=True)
class Found:
    """How often terms were said, found where they were said, and written where nobody said them; words and errors."""

    said: int = 0
    found: int = 0
    false: int = 0
    words: Counts = field(default_factory=Counts)
    made_up: list[str] = field(default_factory=list)  # the false ones

    def add(self, reference: str, text: str, terms: Iterable[str], language: str = "en") -> None:
        """Count one recording."""
        spoken, written = normalise(reference, language).split(), normalise(text, language).split()
        for term in {normalise(term, language) for term in terms}:
            here, there = occurrences(spoken, term.split()), occurrences(written, term.split())
            self.said += here
            self.found += min(here, there)
            self.false += max(0, there - here)
            self.made_up += [term] * max(0, there - here)
        self.words += align(reference.split(), text.split(), language).words


def occurrences(words: Sequence[str], term: Sequence[str]) -> int:
    """How often the words of a term follow each other."""
    length = len(term)
    return sum(words[at : at + length] == list(term) for at in range(len(words) - length + 1)) if term else 0


def terms_of(one: Scored) -> tuple[str, ...]:
    """The manifest's terms of a recording."""
    listed = (
        str(term).strip()
        for entry in one.entries
        for name in ("rare_words", "keywords")
        for term in entry.get(name) or ()
    )
    return tuple(dict.fromkeys(term for term in listed if term))


def recordings(corpora: Iterable[str]) -> Iterator[Scored]:
    """What `people-PART/HALF` names."""
    for corpus in corpora:
        kind, _, folder = corpus.partition(":")
        name, _, half = kind.partition("/")
        part = name.removeprefix("people").removeprefix("-")
        for one in scored_in(place_of_people(folder)):
            if part in ("", part_of_people(one)) and half in ("", half_of(speaker_of(one))):
                yield one


def offline(model: Transcriber, samples: FloatArray, options: DecodeOptions) -> str:
    """A recording as a whole."""
    return model.transcribe(samples, options=options).text


def streamed(model: Transcriber, recipe: str, samples: FloatArray, options: DecodeOptions) -> str:
    """The words that a session confirms."""
    session = model.session(recipe, options=options)
    for at in range(0, len(samples), BLOCK):
        session.push(samples[at : at + BLOCK])
    session.finish()
    return join_words(session.transcript.words)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, hear, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("corpora", nargs="+", metavar="people-PART/HALF[:FOLDER]")
    parser.add_argument("-r", "--recipe", default="offline", help="offline, or a recipe's name")
    parser.add_argument("--beam", type=int, default=1, help="of offline")
    parser.add_argument("--bonus", type=float, nargs="+", default=[key_terms.BONUS], metavar="NATS")
    parser.add_argument("--farthest", type=float, default=key_terms.FARTHEST, metavar="NATS")
    parser.add_argument("--prompt", action="store_true", help="show them to the model instead")
    given = parser.parse_args(arguments)
    usual = DecodeOptions(beam=given.beam if given.recipe == "offline" else 1)
    every = list(recordings(given.corpora))
    heard = [(one, one.recording.utterance()) for one in every]
    listed = tuple(dict.fromkeys(term for one in every for term in terms_of(one)))
    print(f"{len(every)} recordings, {sum(u.seconds for _, u in heard):.0f} s, {len(listed)} terms")
    print("| bonus | terms | said | found | false | words | word errors | false ones |")
    print("|---:|---|---:|---:|---:|---:|---:|---|")
    key_terms.FARTHEST = given.farthest
    for number, bonus in enumerate(given.bonus):
        key_terms.BONUS = bonus
        model = load(given.model, threads=1)  # anew, as it keeps what was made of the terms
        hear: Hear = partial(offline, model) if given.recipe == "offline" else partial(streamed, model, given.recipe)
        kinds = ("none", "own", "all") if not number else ("own", "all")
        counted = {kind: Found() for kind in kinds}
        for one, utterance in heard:
            own = terms_of(one)
            reference = join_written([word.text for word in one.recording.words], utterance.language)
            for kind, found in counted.items():
                if kind == "own" and not own:
                    continue
                terms = {"none": (), "own": own, "all": listed}[kind]
                how = {"prompt": ", ".join(terms)} if given.prompt else {"keyterms": terms}
                text = hear(utterance.audio(), DecodeOptions(beam=usual.beam, **how))
                found.add(reference, text, own if kind == "own" else listed, utterance.language)
        for kind, found in counted.items():
            print(
                f"| {bonus:g} | {kind} | {found.said} | {found.found} | {found.false} | {found.words.reference} "
                f"| {found.words.rate or 0:.2%} | {', '.join(found.made_up)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
