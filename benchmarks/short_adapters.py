"""What teaches a checkpoint short windows best: low-rank changes (LoRA), a hush word, or both; of which rank, in which
layers, from how many windows; bare or with a little merged padding.

    python benchmarks/short_adapters.py tiny.en ../shared/speech-train/manifest.jsonl --folder RUN

Each kind learns from the same windows, with as many updates, by the loss of `whispertide train short`. One row each:
the loss on held-out speakers, and the word errors on windows of --corpora, cut between words, beside the checkpoint
padded to 30 s, with an interval over speakers. A hush word is half a second of sound after the window (WhisperFlow), or
as many frames of its log-mel. --folder keeps what is done; the same command goes on. Needs the laboratory and torch.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from short_windows import Encode, Heard, cut, framed, hear
from torch import Tensor

from whispertide.atomic import write_text
from whispertide.audio.buffer import to_float
from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.short import GROUPS
from whispertide.cli.progress import counting
from whispertide.features import log_mel
from whispertide.model.engine import Encoded
from whispertide.model.whisper import WhisperModel
from whispertide.streaming.framing import BARE, PAD30, Framing, Merged, taught_framing
from whispertide.types import HOP_LENGTH, FloatArray, to_samples
from whispertide_lab.evaluation.bootstrap import paired_over
from whispertide_lab.evaluation.corpora import open_corpus
from whispertide_lab.speech.noise import Dice
from whispertide_lab.speech.utterance import Utterance
from whispertide_lab.training.epochs import EpochOptions, EpochTrainer, Lessons
from whispertide_lab.training.hush_windows import opening
from whispertide_lab.training.lora import adapt, adapters
from whispertide_lab.training.mel import followed
from whispertide_lab.training.network import Whisper, load_network
from whispertide_lab.training.shards import Shards
from whispertide_lab.training.short import model_of, parts_of
from whispertide_lab.training.short_batches import ShortBatch, ShortBatches, collated, in_order
from whispertide_lab.training.short_framing import encode_short
from whispertide_lab.training.short_lessons import Lesson, Teacher, teach
from whispertide_lab.training.short_speech import Advance, apart, gather
from whispertide_lab.training.short_windows import ShortWindowOptions

HUSH_S, NOISE = 0.5, 0.05  # its length, and the standard deviation of the noise that it starts as
RATE, HUSH_RATE = 3e-4, 0.01  # as `train short` and `train hush` have them
BATCH, AGAIN = 8, 1 / 16
SPEECH_S = 5.0  # that is gathered for each window


@dataclass(frozen=True, slots=True)
class Kind:
    """What is learned: changes of `rank` in these `groups` of weights, by default those that `train short` changes, a
    `hush` word ("sound" or "log-mel"), or both; from the first `share` of the windows. These have padding of so many
    `merged` frames.
    """

    name: str
    rank: int = 0
    groups: Sequence[str] = GROUPS
    hush: str = ""
    share: float = 1.0
    merged: int = 0


KINDS = (
    Kind("LoRA, rank 16", rank=16),
    Kind("LoRA, rank 16, with padding of 16 merged frames", rank=16, merged=16),
    Kind("LoRA, rank 16, with padding of 64 merged frames", rank=16, merged=64),
    Kind("LoRA, rank 4", rank=4),
    Kind("LoRA, rank 64", rank=64),
    Kind("hush word of 0.5 s", hush="sound"),
    Kind("hush word of 0.5 s, in log-mel", hush="log-mel"),
    Kind("LoRA, rank 16, and the hush word in log-mel", rank=16, hush="log-mel"),
    Kind("LoRA, rank 16, the encoder's attention alone", rank=16, groups=("encoder_self",)),
    Kind("LoRA, rank 16, the decoder's attention to the encoder alone", rank=16, groups=("decoder_hears",)),
    Kind("LoRA, rank 16, the decoder's attention to its text, too", rank=16, groups=(*GROUPS, "decoder_self")),
    Kind("LoRA, rank 16, from a quarter of the windows", rank=16, share=0.25),
)


# --- windows ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SoundBatch(ShortBatch):
    """With what a hush word in sound needs (`mel.followed`): raw frames, the samples after them, the loudest cell."""

    before: Tensor
    tail: Tensor
    peak: Tensor


def with_sound(lessons: Sequence[Lesson], twice: int, n_mels: int, filler: int) -> SoundBatch:
    """Lessons of one length."""
    batch = collated(lessons, twice, n_mels, filler)
    openings = zip(*(opening(to_float(lesson.samples), n_mels) for lesson in lessons), strict=True)
    sound = [torch.from_numpy(np.stack(parts)) for parts in openings]
    return SoundBatch(*(getattr(batch, each.name) for each in fields(batch)), *sound)


class SoundBatches(ShortBatches):
    """The same windows, with their sound."""

    def make(self, number: int, dice: Dice) -> SoundBatch:
        """Batch `number`, by its dice."""
        return with_sound(*self.draw(dice), self._n_mels, self._filler)


# --- how windows are heard --------------------------------------------------------------------------------------------


class Ear(Protocol):
    """How a student hears windows; it may have something to learn itself."""

    @property
    def parameters(self) -> list[Tensor]:
        """What it learns."""

    def encoded(self, network: Whisper, batch: SoundBatch) -> Tensor:
        """The windows of a batch: [b, frames, width]."""

    def encode(self, model: WhisperModel, samples: FloatArray) -> Encoded:
        """One window [n] of 16 kHz."""


@dataclass(frozen=True, slots=True)
class TaughtEar:
    """Windows as they are, or with so many frames of merged padding."""

    merged: int
    parameters: list[Tensor] = field(default_factory=list)

    def encoded(self, network: Whisper, batch: SoundBatch) -> Tensor:
        """The windows of a batch."""
        return encode_short(network, batch.bare, self.merged)

    def encode(self, model: WhisperModel, samples: FloatArray) -> Encoded:
        """One window."""
        return framed(model, taught_framing(self.merged))(samples)


class HushEar:
    """Windows with a hush word after them, which is learned: `word` of sound [n], or of log-mel [mels, frames].

    The parameter is the word on a scale on which one rate serves it and the changes.
    """

    scale = HUSH_RATE / RATE

    def __init__(self, n_mels: int, seed: int) -> None:
        noise = NOISE * np.random.RandomState(seed).standard_normal(to_samples(HUSH_S))
        start = torch.from_numpy(self.begin(noise.astype(np.float32), n_mels) / self.scale)
        self.n_mels, self.parameters = n_mels, [start.requires_grad_()]

    @property
    def word(self) -> Tensor:
        """What follows a window."""
        return self.scale * self.parameters[0]

    def begin(self, noise: FloatArray, n_mels: int) -> FloatArray:
        """What the word is before anything is learned."""
        raise NotImplementedError

    def heard(self, bare: Tensor, before: Tensor, tail: Tensor, peak: Tensor) -> Tensor:
        """The log-mel [b, mels, frames] of windows and word; `before`, `tail` and `peak` as `mel.followed` has them."""
        raise NotImplementedError

    def encoded(self, network: Whisper, batch: SoundBatch) -> Tensor:
        """The windows of a batch."""
        encoded: Tensor = network.encoder(self.heard(batch.bare, batch.before, batch.tail, batch.peak))
        return encoded

    def encode(self, model: WhisperModel, samples: FloatArray) -> Encoded:
        """One window."""
        bare = log_mel(samples, self.n_mels)
        even = np.pad(bare, [(0, 0), (0, bare.shape[1] % 2)])
        arrays = [torch.from_numpy(np.array(array)[None]) for array in (even, *opening(samples, self.n_mels))]
        with torch.no_grad():
            return model.encode(self.heard(*arrays)[0].numpy())


class HushInSound(HushEar):
    """As WhisperFlow has it."""

    def begin(self, noise: FloatArray, n_mels: int) -> FloatArray:
        """Noise."""
        return noise

    def heard(self, bare: Tensor, before: Tensor, tail: Tensor, peak: Tensor) -> Tensor:
        """The log-mel of the whole sound."""
        return followed(before, tail, self.word, peak).float()


class HushInLogMel(HushEar):
    """Frames that no sound need have."""

    def begin(self, noise: FloatArray, n_mels: int) -> FloatArray:
        """Those of noise."""
        return log_mel(noise, n_mels)[:, : len(noise) // HOP_LENGTH]

    def heard(self, bare: Tensor, before: Tensor, tail: Tensor, peak: Tensor) -> Tensor:
        """The window's frames, then the word's."""
        return torch.cat([bare, self.word.expand(len(bare), -1, -1)], dim=2)


def ear_of(kind: Kind, n_mels: int, seed: int) -> Ear:
    """How students of this kind hear."""
    words = {"sound": HushInSound, "log-mel": HushInLogMel}
    return words[kind.hush](n_mels, seed) if kind.hush else TaughtEar(kind.merged)


# --- training ---------------------------------------------------------------------------------------------------------


class KindTrainer(EpochTrainer[SoundBatch]):
    """A student of one kind."""

    def __init__(
        self, network: Whisper, kind: Kind, lessons: Lessons[SoundBatch], options: EpochOptions, folder: Path
    ) -> None:
        self.network, self.ear = network.requires_grad_(False), ear_of(kind, network.dims.n_mels, options.seed)
        parameters = list(self.ear.parameters)
        if kind.rank:
            adapt(network, kind.rank, options.seed, kind.groups)
            parameters += [matrix for pair in adapters(network).values() for matrix in pair]
        super().__init__(parameters, lessons, options, folder, "cpu")

    def loss(self, batch: SoundBatch) -> Tensor:
        """As `train short` has it."""
        parts = parts_of(self.network, batch, self.ear.encoded(self.network, batch))
        return parts.distance + parts.text + parts.changed

    @property
    def size(self) -> int:
        """Numbers that are learned."""
        return sum(parameter.numel() for parameter in self.parameters)


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """Of one kind: how many numbers it learned, the loss per token of held-out speakers, and what it heard of the
    corpora.
    """

    name: str
    size: int | None
    loss: float | None
    heard: Heard

    def line(self, before: Heard, speakers: Sequence[str]) -> str:
        """Of the table; `speakers` of the windows."""
        size, loss = ("" if value is None else f"{value:,.4g}" for value in (self.size and self.size / 1e6, self.loss))
        points = paired_over(speakers, before.errors, self.heard.errors).text(100.0)
        ended = f"{self.heard.endless} of {len(self.heard.errors)}"
        return f"| {self.name} | {size} | {loss} | {self.heard.rate:.2f} | {points} | {ended} |"


def kept(path: Path, make: Callable[[], Row]) -> Row:
    """The row that is kept there, or a new one, which is kept."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(asdict(make())))
    found = json.loads(path.read_text(encoding="utf-8"))
    return Row(**{**found, "heard": Heard(**found["heard"])})


def heard_by(model: WhisperModel, encode: Encode, spoken: Sequence[Utterance]) -> Heard:
    """All windows, counted."""
    heard = Heard()
    for utterance in spoken:
        hear(model, encode, utterance, heard)
    return heard


def untaught(checkpoint: Checkpoint, folder: Path, spoken: Sequence[Utterance]) -> list[Row]:
    """The checkpoint as it is, padded, with merged padding, and bare."""
    model = model_of(checkpoint, load_network(checkpoint).eval())
    ways: dict[str, tuple[str, Framing]] = {
        "pad30": ("padded to 30 s", PAD30),
        "merged": ("with padding of 128 merged frames", Merged()),
        "merged64": ("with padding of 64 merged frames", taught_framing(64)),
        "merged16": ("with padding of 16 merged frames", taught_framing(16)),
        "bare": ("bare", BARE),
    }

    def row(name: str, framing: Framing) -> Row:
        return Row(f"as it is, {name}", None, None, heard_by(model, framed(model, framing), spoken))

    return [kept(folder / f"{stem}.json", partial(row, *way)) for stem, way in ways.items()]


@dataclass(frozen=True, slots=True)
class School:
    """What all kinds learn from and are judged by."""

    checkpoint: Checkpoint
    lessons: list[Lesson]
    held_out: list[Lesson]
    spoken: list[Utterance]
    options: EpochOptions
    folder: Path

    def row(self, number: int, kind: Kind, advance: Advance) -> Row:
        """Teach and judge one kind; what was done before is kept."""
        checkpoint, options = self.checkpoint, self.options
        n_mels, filler = checkpoint.dims.n_mels, checkpoint.tokenizer.eot
        windows = self.lessons[: round(kind.share * len(self.lessons))]
        held_out = [with_sound(part, twice, n_mels, filler) for part, twice in in_order(self.held_out, BATCH)]
        batches = SoundBatches(windows, BATCH, AGAIN, n_mels, filler, options.seed)
        network = load_network(checkpoint).eval()
        folder = self.folder / f"{number}"
        folder.mkdir(exist_ok=True)
        trainer = KindTrainer(network, kind, Lessons(batches, held_out), options, folder).resume()
        trainer.run(lambda step, _: advance(kind.name, step, options.steps))
        _, loss = trainer.take_mean((len(trainer.best), 1))
        model = model_of(checkpoint, network)
        return Row(kind.name, trainer.size, loss, heard_by(model, partial(trainer.ear.encode, model), self.spoken))


def taught(checkpoint: Checkpoint, options: argparse.Namespace, advance: Advance) -> tuple[list[Lesson], list[Lesson]]:
    """Windows to learn from, and those of held-out speakers, as the checkpoint hears them padded."""
    folder, windows = options.folder, ShortWindowOptions()
    speech = gather(options.speech, folder / "speech", SPEECH_S * options.windows, options.seed, advance)
    model = model_of(checkpoint, load_network(checkpoint).eval())

    def answers(part: Shards, count: int, name: str) -> list[Lesson]:
        teacher = Teacher(model, windows, None)
        return teach(teacher, part, count, options.seed, folder / name, advance, lambda: False) or []

    trained, held = apart(speech, options.seed)
    return answers(trained, options.windows, "lessons"), answers(held, options.held_out, "held-out")


def main() -> None:
    """Parse, teach, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("speech", nargs="+", type=Path, help="recordings, folders, manifests")
    parser.add_argument("--folder", type=Path, required=True, help="what is done is kept there")
    parser.add_argument("--windows", type=int, default=640)
    parser.add_argument("--held-out", type=int, default=160)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cut", type=float, default=5.0, metavar="S", help="longest window of the corpora")
    parser.add_argument("--aligner", default="base")
    parser.add_argument("--corpora", nargs="+", default=["people-readings/choose", "people-utterances/choose"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    checkpoint = load_checkpoint(options.model)
    spoken = [each for name in options.corpora for each in open_corpus(name).utterances() if each.words]
    windows = cut(spoken, options.cut, options.aligner)
    epochs = EpochOptions(steps=options.steps, epoch=40, rate=RATE, seed=options.seed)
    with counting("windows") as advance:
        lessons, held_out = taught(checkpoint, options, advance)
        school = School(checkpoint, lessons, held_out, windows, epochs, options.folder)
        rows = untaught(checkpoint, options.folder, windows)
        for number, kind in enumerate(KINDS):
            rows.append(kept(options.folder / f"{number}.json", partial(school.row, number, kind, advance)))
    words, speakers = round(sum(count for _, count in rows[0].heard.errors)), [one.group for one in windows]
    print(
        f"{checkpoint.name}: {len(lessons)} windows, {options.steps} updates; {words} words in "
        f"{len(windows)} windows of {len({*speakers})} speakers"
    )
    print("\n| | million numbers | loss per token | errors % | points more than padded | without end |")
    print("|---|---:|---:|---:|---:|---:|")
    for row in rows:
        print(row.line(rows[0].heard, speakers))


if __name__ == "__main__":
    main()
