"""What an adapter for short windows costs its checkpoint: single utterances, padded to 30 s, bare, and bare with it.

    python benchmarks/short_windows.py base people-utterances/report people-accents/report
    python benchmarks/short_windows.py base "people-languages:../shared/speech" --language it

Each utterance of at most --longest seconds is one greedy decode by Whisper's rules, without timestamps. A text that
does not end has as many tokens as nobody could say in that time, and its words count. Intervals of differences to the
padded windows are by a bootstrap over utterances (10,000 draws). Needs the laboratory.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field

from whispertide import load
from whispertide.cli.progress import counting
from whispertide.decoding.prompt import build_prompt
from whispertide.decoding.rules import build_rules
from whispertide.features import log_mel
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, PAD30, Framing
from whispertide_lab.evaluation.bootstrap import paired
from whispertide_lab.evaluation.corpora import open_corpus
from whispertide_lab.evaluation.wer import align
from whispertide_lab.speech.utterance import Utterance
from whispertide_lab.training.short_lessons import limit, search

LONGEST_S = 8.0


@dataclass
class Heard:
    """What one way of hearing gave: errors and words of each utterance, and how many texts did not end."""

    errors: list[tuple[float, float]] = field(default_factory=list)
    endless: int = 0

    @property
    def rate(self) -> float:
        """Word errors in 100 words."""
        return 100 * sum(errors for errors, _ in self.errors) / sum(words for _, words in self.errors)


def hear(model: WhisperModel, framing: Framing, utterance: Utterance, into: Heard) -> None:
    """One greedy decode, counted."""
    samples = utterance.audio()
    asked = DecodeOptions(timestamps=False, max_tokens=limit(len(samples)))
    language = utterance.language if model.tokenizer.is_multilingual else None
    prompt = build_prompt(model.tokenizer, model.dims.n_text_ctx, asked, language=language, previous=())
    encoded = framing(model, log_mel(samples, model.dims.n_mels))
    best = search(model, encoded, prompt, build_rules(model, asked)).best
    said, found = [word.text for word in utterance.words], model.tokenizer.decode(best.tokens).split()
    words = align(said, found, utterance.language).words
    into.errors.append((float(words.errors), float(words.reference)))
    into.endless += best.stop != "end_of_text"


def row(name: str, heard: Heard, before: Heard) -> str:
    """A line of the table."""
    points = paired(before.errors, heard.errors).text(100.0)
    return f"| {name} | {heard.rate:.2f} | {points} | {heard.endless} of {len(heard.errors)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, hear, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("corpora", nargs="+", metavar="CORPUS", help="as of `bench run --corpora`")
    parser.add_argument("--longest", type=float, default=LONGEST_S, metavar="S", help="longer utterances are left out")
    parser.add_argument("--language", help="that alone")
    options = parser.parse_args(arguments)
    model = load(options.model, threads=1).model
    utterances = [
        utterance
        for name in options.corpora
        for utterance in open_corpus(name).utterances()
        if utterance.words
        and utterance.seconds <= options.longest
        and (options.language is None or utterance.language == options.language)
    ]
    ways: dict[str, tuple[WhisperModel, Framing]] = {
        "padded to 30 s": (model, PAD30),
        "bare": (model, BARE),
        "bare, with the adapter": (model.short, BARE),
    }
    heard = {name: Heard() for name in ways}
    with counting("utterances") as advance:
        for number, utterance in enumerate(utterances, 1):
            for name, (one, framing) in ways.items():
                hear(one, framing, utterance, heard[name])
            advance(model.name, number, len(utterances))
    words = round(sum(count for _, count in heard["bare"].errors))
    print(f"{model.name}: {len(utterances)} utterances, {words} words\n")
    print("| windows | errors % | points more than padded | without end |\n|---|---:|---:|---:|")
    for name, found in heard.items():
        print(row(name, found, heard["padded to 30 s"]))


if __name__ == "__main__":
    main()
