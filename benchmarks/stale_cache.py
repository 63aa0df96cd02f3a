"""What it saves, and what it costs in words, to keep what a decoder cached with less audio: `python
benchmarks/stale_cache.py`.

The recipe `whisperrt` feeds the whole text once in each round, because what a cache holds was computed with the audio
of an earlier round. Here rows of tokens that are older than the newest `--older` stay as they were when they were last
fed. Three ways are compared on talks with nano.en: that, the recipe's own, and none at all, as published, where every
step feeds the whole text; that finds the same as the recipe, so it is only counted. Prints word errors, decoder runs
and positions fed per second of audio.
"""

import argparse
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from whispertide.checkpoint.generation import Head
from whispertide.lab.evaluation.corpora import open_corpus
from whispertide.lab.evaluation.wer import Counts, align
from whispertide.lab.speech.utterance import Utterance
from whispertide.model.engine import DecodeOutput, DecodeRequest, Encoded
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions
from whispertide.session import Session
from whispertide.streaming.recipe import Recipe
from whispertide.streaming.recipes import get_recipe, make_gate
from whispertide.streaming.round import Equipment
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import SAMPLE_RATE, FloatArray

PORTION = SAMPLE_RATE // 10


@dataclass
class Counted:
    """Decoder runs, positions that they fed, and those that they would have fed without any cache."""

    runs: int = 0
    fed: int = 0
    without: int = 0


@dataclass
class Kept:
    """What one round leaves to the next of the same stream: the cache, its tokens, and what belongs to them."""

    begin: int = -1
    run: Any = None
    tokens: list[int] = field(default_factory=list)
    attention: FloatArray | None = None
    start: FloatArray | None = None  # the logits after the start of the transcript


class Keeping:
    """A model with a decoder whose rows of tokens older than the newest `older` stay from round to round; None: none
    stay. It is for one stream at a time, and for greedy search.
    """

    def __init__(self, model: WhisperModel, older: int | None) -> None:
        self._model = model
        self.older = older
        self.kept = Kept()
        self.counted = Counted()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def decoder(self, encoded: Encoded, heads: tuple[Head, ...] = ()) -> "KeptRun":
        """For a round that has heard so much."""
        begin = -1 if encoded.state is None else encoded.state.tensors["begin"]
        if self.older is None or begin != self.kept.begin or self.kept.run is None:
            self.kept = Kept(begin, self._model.decoder(encoded, heads=heads))
        else:
            self.kept.run.hear(encoded)
        return KeptRun(self, encoded.valid_frames)


class KeptRun:
    """A decoder run that begins with what the last one kept. Satisfies `engine.DecoderRun`."""

    def __init__(self, keeping: Keeping, frames: int) -> None:
        self._keeping, self._kept, self._frames = keeping, keeping.kept, frames
        self._is_first = True

    def run(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens that are not kept; the output is as if all had been fed."""
        kept, run = self._kept, self._kept.run
        count, length = request.tokens.shape
        assert count == 1, "expected greedy search"
        keep = self._common(request) if self._is_first else 0
        if self._is_first:
            self._is_first = False
            self._cut(keep)
        short = replace(
            request,
            tokens=request.tokens[:, keep:],
            logits_at=tuple(place - keep for place in request.logits_at if place >= keep),
        )
        output: DecodeOutput = run.run(short)
        self._count(length - keep)
        kept.tokens += request.tokens[0, keep:].tolist()
        if output.attention is not None:
            before = self._attention(output.attention)
            kept.attention = np.concatenate([before, output.attention], axis=2)
            output = replace(output, attention=kept.attention[:, :, -length:])
        if not keep:
            if len(kept.tokens) == length and output.logits is not None:
                kept.start = output.logits[:, :1]
            return output
        if output.logits is None or len(short.logits_at) == len(request.logits_at):
            return output
        assert kept.start is not None
        return replace(output, logits=np.concatenate([kept.start, output.logits], axis=1))

    def _common(self, request: DecodeRequest) -> int:
        """How many of the tokens are those in the cache and old enough; those that are scored are fed."""
        older = self._keeping.older
        if older is None or not self._kept.tokens or request.need != "logits":
            return 0
        tokens = request.tokens[0].tolist()
        same = next(
            (n for n, pair in enumerate(zip(tokens, self._kept.tokens, strict=False)) if pair[0] != pair[1]), None
        )
        common = min(len(tokens), len(self._kept.tokens)) if same is None else same
        return max(min(common, len(tokens) - older, *request.logits_at[1:]), 0)

    def _cut(self, length: int) -> None:
        """Only the first tokens stay."""
        kept = self._kept
        kept.run.rewind(len(kept.tokens) - length)
        kept.tokens = kept.tokens[:length]
        kept.attention = None if kept.attention is None else kept.attention[:, :, :length]

    def _attention(self, like: FloatArray) -> FloatArray:
        """What the kept tokens attended to, as wide as the audio is now."""
        old = self._kept.attention
        heads, rows, _, frames = like.shape
        if old is None:
            return np.zeros((heads, rows, 0, frames), np.float32)
        return np.pad(old, ((0, 0), (0, 0), (0, 0), (0, frames - old.shape[3])))

    def rewind(self, drop: int, keep: Any = ()) -> None:
        """Forget the newest tokens."""
        assert not len(keep)
        self._kept.run.rewind(drop)
        length = len(self._kept.tokens) - drop
        self._kept.tokens = self._kept.tokens[:length]
        if self._kept.attention is not None:
            self._kept.attention = self._kept.attention[:, :, :length]

    def hear(self, encoded: Encoded) -> None:
        """Rounds have decoders of their own."""
        raise NotImplementedError

    def _count(self, fed: int) -> None:
        counted = self._keeping.counted
        counted.runs += 1
        counted.fed += fed
        counted.without += len(self._kept.tokens) + fed


def heard(model: WhisperModel, recipe: Recipe, older: int | None, audio: FloatArray) -> tuple[str, Counted]:
    """What the recipe says of the audio, and what its decoder did."""
    keeping: Any = Keeping(model.causal, older)
    executor = SerialExecutor(Equipment(keeping, recipe.framing))
    session = Session(recipe, executor, make_gate(recipe))
    for start in range(0, len(audio), PORTION):
        session.push(audio[start : start + PORTION])
    session.finish()
    return "".join(word.text for word in session.transcript.words), keeping.counted


def measured(model: WhisperModel, talks: list[Utterance], older: int | None) -> tuple[Counts, Counted]:
    """Of all talks together."""
    errors, work = Counts(), Counted()
    for talk in talks:
        text, counted = heard(model, get_recipe("whisperrt"), older, talk.audio())
        errors += align([word.text for word in talk.words], text.split()).words
        work = Counted(work.runs + counted.runs, work.fed + counted.fed, work.without + counted.without)
    return errors, work


def main() -> None:
    """Measure every way, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano.en")
    parser.add_argument("--seconds", type=float, default=60, help="of each talk")
    parser.add_argument(
        "--older", type=int, nargs="*", default=[16, 8, 4], help="rows of tokens older than so many stay"
    )
    arguments = parser.parse_args()
    model = load_model(arguments.model, EngineOptions(threads=1))
    talks = list(open_corpus("talks", length_s=arguments.seconds).utterances())
    seconds = sum(len(talk.audio()) for talk in talks) / SAMPLE_RATE
    print(f"{arguments.model}, {len(talks)} talks of {seconds:.0f} s in all; per second of audio")
    print("| stays from round to round | word errors | of | decoder runs | positions fed |")
    print("|---|---:|---:|---:|---:|", flush=True)
    for older in (None, *arguments.older):
        errors, work = measured(model, talks, older)
        row = f"{errors.errors} | {errors.reference} | {work.runs / seconds:.1f} |"
        if older is None:
            print(f"| nothing, and nothing within a round (published) | {row} {work.without / seconds:.0f} |")
        name = "nothing (whisperrt)" if older is None else f"tokens older than {older}"
        print(f"| {name} | {row} {work.fed / seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
