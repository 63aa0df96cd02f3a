"""What ways to hear short windows cost a checkpoint: padded to 30 s, with merged padding, bare, and bare with the
adapter.

    python benchmarks/short_windows.py base people-utterances/report people-accents/report
    python benchmarks/short_windows.py base people-readings/report people-dictation/report --cut 5
    python benchmarks/short_windows.py base "people-languages:../shared/speech" --language it

A window is an utterance of at most --longest seconds; with --cut, recordings are cut between words into windows of at
most so many seconds, where --aligner places the words. Each is one greedy decode by Whisper's rules, without timestamps
and without the text before it. A text that does not end has as many tokens as nobody could say in that time, and its
words count. Intervals of differences to the padded windows are by a bootstrap over speakers, or over recordings where
nobody knows the speaker (10,000 draws). Needs the laboratory.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from whispertide import load
from whispertide.api import Transcriber
from whispertide.cli.progress import counting
from whispertide.decoding.prompt import build_prompt
from whispertide.decoding.rules import build_rules
from whispertide.features import log_mel
from whispertide.model.engine import Encoded
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, PAD30, Framing, Merged, taught_framing
from whispertide.types import FloatArray, seconds, to_samples
from whispertide_lab.evaluation.aligned import aligned
from whispertide_lab.evaluation.bootstrap import paired_over, units_of
from whispertide_lab.evaluation.clips import limit
from whispertide_lab.evaluation.corpora import open_corpus
from whispertide_lab.evaluation.wer import align
from whispertide_lab.speech.utterance import NOBODY, Utterance
from whispertide_lab.training.short_lessons import search

LONGEST_S = 8.0

Encode = Callable[[FloatArray], Encoded]


@dataclass
class Heard:
    """What one way of hearing gave: errors and words of each utterance, and how many texts did not end."""

    errors: list[tuple[float, float]] = field(default_factory=list)
    endless: int = 0

    @property
    def rate(self) -> float:
        """Word errors in 100 words."""
        return 100 * sum(errors for errors, _ in self.errors) / sum(words for _, words in self.errors)


def pieces(utterance: Utterance, longest_s: float) -> Iterator[Utterance]:
    """An utterance with placed words, cut between words into pieces of at most so many seconds each. A word that could
    not be placed stays with the one before it. Where nobody knows the speaker, pieces of a recording are a group.
    """
    group = utterance.id if utterance.group in NOBODY else utterance.group
    ends = accumulate((word.end or 0 for word in utterance.words), max)
    words = [replace(word, end=end) for word, end in zip(utterance.words, ends, strict=True)]
    longest = to_samples(longest_s)
    while words:
        start = words[0].start or 0
        count = sum((word.end or 0) - start <= longest for word in words) or 1  # ends never fall
        end = words[count - 1].end or start

        def sound(start: int = start, end: int = end) -> FloatArray:
            return utterance.audio()[start:end]

        name = f"{utterance.id} {seconds(start):.2f}"
        about: dict[str, Any] = {"id": name, "group": group, "seconds": seconds(end - start), "audio": sound}
        yield replace(utterance, words=tuple(words[:count]), **about)
        del words[:count]


def windows(options: argparse.Namespace) -> list[Utterance]:
    """What is heard."""
    spoken = [
        utterance
        for name in options.corpora
        for utterance in open_corpus(name).utterances()
        if utterance.words and options.language in (None, utterance.language)
    ]
    if options.cut is None:
        return [utterance for utterance in spoken if utterance.seconds <= options.longest]
    return cut(spoken, options.cut, options.aligner)


def cut(spoken: Sequence[Utterance], longest_s: float, aligner_name: str) -> list[Utterance]:
    """Recordings in windows of at most so many seconds, cut between words where the aligner finds them."""
    aligner: Transcriber = load(aligner_name)
    placed = [aligned(utterance, aligner, aligner_name) for utterance in spoken]
    return [piece for utterance in placed if utterance.aligned_by for piece in pieces(utterance, longest_s)]


def framed(model: WhisperModel, framing: Framing) -> Encode:
    """Encodes windows [n] at 16 kHz in that way."""

    def encode(samples: FloatArray) -> Encoded:
        return framing(model, log_mel(samples, model.dims.n_mels))

    return encode


def hear(model: WhisperModel, encode: Encode, utterance: Utterance, into: Heard) -> None:
    """One greedy decode, counted."""
    samples = utterance.audio()
    asked = DecodeOptions(timestamps=False, max_tokens=limit(len(samples)))
    language = utterance.language if model.tokenizer.is_multilingual else None
    prompt = build_prompt(model.tokenizer, model.dims.n_text_ctx, asked, language=language, previous=())
    best = search(model, encode(samples), prompt, build_rules(model, asked)).best
    said, found = [word.text for word in utterance.words], model.tokenizer.decode(best.tokens).split()
    words = align(said, found, utterance.language).words
    into.errors.append((float(words.errors), float(words.reference)))
    into.endless += best.stop != "end_of_text"


def row(name: str, heard: Heard, before: Heard, speakers: Sequence[str]) -> str:
    """A line of the table."""
    points = paired_over(speakers, before.errors, heard.errors).text(100.0)
    return f"| {name} | {heard.rate:.2f} | {points} | {heard.endless} of {len(heard.errors)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, hear, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("corpora", nargs="+", metavar="CORPUS", help="as of `bench run --corpora`")
    parser.add_argument("--longest", type=float, default=LONGEST_S, metavar="S", help="longer utterances are left out")
    parser.add_argument("--cut", type=float, metavar="S", help="into windows of at most so many seconds")
    parser.add_argument("--aligner", default="base", metavar="MODEL")
    parser.add_argument("--language", help="that alone")
    options = parser.parse_args(arguments)
    model = load(options.model, threads=1).model
    utterances = windows(options)
    if not utterances:
        longest = f" of at most {options.longest:g} s" if options.cut is None else ""
        language = f" in the language {options.language!r}" if options.language else ""
        parser.error(f"expected utterances{longest}{language} in {', '.join(options.corpora)}; there are none")
    ways: dict[str, tuple[WhisperModel, Framing]] = {
        "padded to 30 s": (model, PAD30),
        "with merged padding": (model, Merged()),
        "bare": (model, BARE),
    }
    if model.short is not model:
        for framing in dict.fromkeys((taught_framing(model.short_merged), BARE)):
            ways[f"{framing.name}, with the adapter"] = (model.short, framing)
    heard = {name: Heard() for name in ways}
    with counting("windows") as advance:
        for number, utterance in enumerate(utterances, 1):
            for name, (one, framing) in ways.items():
                hear(one, framed(one, framing), utterance, heard[name])
            advance(model.name, number, len(utterances))
    words, speakers = round(sum(count for _, count in heard["bare"].errors)), [one.group for one in utterances]
    print(f"{model.name}: {len(utterances)} windows of {len({*units_of(speakers)})} speakers, {words} words\n")
    print("| windows | errors % | points more than padded | without end |\n|---|---:|---:|---:|")
    for name, found in heard.items():
        print(row(name, found, heard["padded to 30 s"], speakers))


if __name__ == "__main__":
    main()
