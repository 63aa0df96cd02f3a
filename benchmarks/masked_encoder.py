"""What an encoder that hears in blocks costs, and what its mask does to words: `python benchmarks/masked_encoder.py`.

Cost, at base.en's shape with random weights (speed does not depend on their values): CPU milliseconds of

    all blocks  30 s of audio, nothing kept
    at 4 s      a round of a stream that has 4 s of audio, of which 3.5 s were there in the round before
    at 28 s     the same at 28 s

for Whisper's padded window (none), each mask, and windows as long as their audio (bare). The ways take turns, so that
all meet the same machine; the median of `--repeats` is printed, and its share of "none" in the same run.

`--wer S` instead: errors per hundred words of nano.en (or `--model`) on the first so many seconds of a synthetic talk,
cut into windows of 30 s and decoded greedily, with the mask alone and with the adapter that was trained for it.
"""

import argparse
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from random_checkpoint import random_checkpoint, random_features

from whispertide.checkpoint.cache import cache_dir
from whispertide.checkpoint.mask import MaskName
from whispertide.decoding.longform import Transcription
from whispertide.features import Features
from whispertide.lab.evaluation.wer import align
from whispertide.lab.speech.talks import open_talks
from whispertide.lab.speech.utterance import Beginnings
from whispertide.model.engine import Encoded
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.streaming.allocation import processor
from whispertide.streaming.framing import BARE, PAD30, Framing
from whispertide.streaming.masked import Masked
from whispertide.types import HOP_LENGTH, N_FRAMES, SAMPLE_RATE, FloatArray

MASKS: tuple[MaskName, ...] = ("d750", "d500", "d250", "c250")
BARE_S = (3, 4, 5)
SECOND = SAMPLE_RATE // HOP_LENGTH  # mel frames
STEP = SECOND // 2
GREEDY = DecodeOptions(beam=1, word_timestamps=False, temperatures=(0.0,))


def round_of(model: WhisperModel, framing: Framing, frames: int) -> Callable[[], Encoded]:
    """A round of a stream that has so many mel frames; nothing is kept where it is all of the window."""
    mel = random_features(model.dims.n_mels, frames)
    state = None if frames == N_FRAMES else framing.after(model, mel[:, : frames - STEP], None).state
    return lambda: framing.after(model, mel, state)


def ways(model: WhisperModel) -> Iterator[tuple[str, str, Callable[[], Encoded]]]:
    """Row, column, and what is timed."""
    framings: dict[str, Framing] = {"none": PAD30} | {mask: Masked(mask=mask, trained=False) for mask in MASKS}
    for name, framing in framings.items():
        yield name, "all blocks", round_of(model, framing, N_FRAMES)
        if name != "none":  # which costs the same whenever
            yield name, "at 4 s", round_of(model, framing, 4 * SECOND)
            yield name, "at 28 s", round_of(model, framing, 28 * SECOND)
    for length in BARE_S:
        yield f"bare, {length} s", f"at {length} s", round_of(model, BARE, length * SECOND)


def cost(arguments: argparse.Namespace) -> None:
    """Measure and print the first table."""
    folder = str(random_checkpoint(arguments.folder, "base.en"))
    model = load_model(folder, EngineOptions(precision=arguments.precision, threads=1))
    timed = list(ways(model))
    taken: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(arguments.repeats + 1):
        for row, column, run in timed:
            began = time.process_time()
            run()
            taken[row, column].append(1000 * (time.process_time() - began))
    found = {way: statistics.median(spent[1:]) for way, spent in taken.items()}  # the first opens graphs
    whole = found["none", "all blocks"]
    print(f"{processor()}, {os.cpu_count()} CPUs, {arguments.precision}, one thread")
    print("| encoder | all blocks | at 4 s | at 28 s |")
    print("|---|---:|---:|---:|")
    for row in dict.fromkeys(row for row, _ in found):
        cells = [found.get((row, column)) for column in ("all blocks", "at 4 s", "at 28 s")]
        if row == "none":
            cells = [whole] * 3
        elif row.startswith("bare"):
            cells[1] = found[row, f"at{row.removeprefix('bare,')}"]
        texts = ["" if cell is None else f"{cell:.0f} ({cell / whole:.2f})" for cell in cells]
        print(f"| {row} | {' | '.join(texts)} |")


def heard(model: WhisperModel, framing: Framing, samples: FloatArray) -> list[str]:
    """The words of a talk, window after window."""
    features = Features.of([samples], model.dims.n_mels)
    said = Transcription(model, features, GREEDY, "en", seek=0, end=features.frames, frame=framing)
    words: list[str] = []
    while not said.done:
        words += [word for segment in said.next_window() for word in segment.text.split()]
    return words


def wer(arguments: argparse.Namespace) -> None:
    """Measure and print the second table."""
    model = load_model(arguments.model, EngineOptions(precision="fp32", threads=1))
    end = arguments.wer * SAMPLE_RATE
    talk = next(iter(open_talks(beginnings=Beginnings(1, end)).utterances()))
    samples, words = talk.audio()[:end], [word.text for word in talk.words if (word.end or 0) <= end]
    print(f"{arguments.model}, {len(samples) / SAMPLE_RATE:.0f} s of {talk.id}, greedy")
    print("| mask | mask alone | with its adapter |")
    print("|---|---:|---:|")

    def rate(framing: Framing) -> str:
        adapted = framing.adapted(model)
        found = align(words, heard(adapted, framing, samples)).words
        return f"{100 * found.errors / found.reference:.1f} ({found.errors} of {found.reference})"

    print(f"| none | {rate(PAD30)} | |", flush=True)
    for mask in arguments.masks:
        trained = Masked(mask=mask)
        with_adapter = rate(trained) if trained.can_adapt(model.checkpoint) else "no adapter"
        print(f"| {mask} | {rate(Masked(mask=mask, trained=False))} | {with_adapter} |", flush=True)


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=cache_dir() / "benchmarks" / "base.en-random")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--wer", type=int, metavar="S", help="errors on so many seconds of talks instead")
    parser.add_argument("--model", default="nano.en")
    parser.add_argument("--masks", nargs="*", choices=MASKS, default=MASKS, help="of the second table")
    arguments = parser.parse_args()
    wer(arguments) if arguments.wer else cost(arguments)


if __name__ == "__main__":
    main()
