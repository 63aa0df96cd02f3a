"""Training a hush word: gradient descent on a suffix of raw audio, through the log-mel and the frozen model.

The suffix is the only parameter (WhisperFlow, section 4.1, which derives it from "Muting Whisper", Raina et al. 2024:
AdamW, a random start). It is taught on windows as streams have them (`hush_windows`), with the token prefixes of
inference, by the cross-entropy of the next tokens, of which the end of text is one. After each epoch the loss on
windows that are not trained on is measured; the best few epochs are averaged (`epochs`).

Needs torch. Knows nothing of command lines.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from whispertide.checkpoint import Tokenizer
from whispertide.errors import OptionError
from whispertide.methods.short.hush import HushWord
from whispertide.streaming.framing import LONGEST_HUSH_S, SHORTEST_HUSH_S
from whispertide.types import HOP_LENGTH, SAMPLE_RATE, to_samples
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.batches import SpeechBatches, Tensors
from whispertide_lab.training.epochs import Descent, EpochOptions, EpochTrainer, Lessons
from whispertide_lab.training.hush_windows import HushWindowOptions, compose_hush, opening
from whispertide_lab.training.lessons import speech_lessons, unreserved
from whispertide_lab.training.mel import followed
from whispertide_lab.training.network import Whisper
from whispertide_lab.training.shards import Shards
from whispertide_lab.training.small_run import note_options


@dataclass(frozen=True, slots=True, kw_only=True)
class HushOptions(EpochOptions):
    """How a hush word is trained: `best` epochs are averaged, and `held_out` counts windows.

    seconds  its length
    batch    windows in an update
    start    standard deviation of the noise that it starts as
    """

    seconds: float = 0.5
    steps: int = 1200
    batch: int = 8
    rate: float = 0.01
    start: float = 0.05
    best: int = 4
    held_out: int = 80
    windows: HushWindowOptions = field(default_factory=HushWindowOptions)

    def __post_init__(self) -> None:
        EpochOptions.__post_init__(self)
        if not SHORTEST_HUSH_S <= self.seconds <= LONGEST_HUSH_S:
            raise OptionError(
                f"expected seconds from {SHORTEST_HUSH_S:g} to {LONGEST_HUSH_S:g} s; got {self.seconds:g}"
            )
        if self.batch < 1 or self.start <= 0:
            raise OptionError(f"expected batch from 1 and start above 0; got {self.batch} and {self.start:g}")


@dataclass(slots=True)
class HushWindow(Tensors):
    """One window: what `mel.followed` takes, and tokens and targets [1, n] (-1: does not count)."""

    before: Tensor
    tail: Tensor
    peak: Tensor
    tokens: Tensor
    targets: Tensor

    @property
    def seconds(self) -> float:
        """Of sound."""
        return float(HOP_LENGTH * self.before.shape[2] + self.tail.shape[1]) / SAMPLE_RATE


@dataclass(slots=True)
class HushBatch:
    """Windows of any length, each of which runs by itself."""

    windows: list[HushWindow]

    @property
    def seconds(self) -> float:
        """Of sound."""
        return sum(window.seconds for window in self.windows)

    @property
    def count(self) -> int:
        """How many tokens count."""
        return sum(int((window.targets >= 0).sum()) for window in self.windows)

    def to(self, device: torch.device) -> "HushBatch":
        """On that device."""
        return HushBatch([window.to(device) for window in self.windows])


class HushBatches(SpeechBatches[HushBatch, HushOptions]):
    """Windows that end as those of a stream do."""

    def make(self, number: int, dice: Dice) -> HushBatch:
        """Batch `number`, by its dice."""
        return HushBatch([self._window(dice) for _ in range(self._options.batch)])

    def _window(self, dice: Dice) -> HushWindow:
        window = compose_hush(self._draw, self._tokenizer, dice, self._options.windows)
        arrays = (*opening(window.samples, self._n_mels), window.tokens, window.targets)
        return HushWindow(*(torch.from_numpy(np.array(values)[None]) for values in arrays))


def hush_loss(network: Whisper, hush: Tensor, window: HushWindow) -> Tensor:
    """Cross-entropy of the next tokens with `hush` [n] after the window, summed over the tokens that count."""
    mel = followed(window.before, window.tail, hush, window.peak)
    encoded = network.encoder(mel.to(network.encoder.conv1.weight.dtype))
    hidden, _ = network.decoder(window.tokens, encoded)
    counted = window.targets >= 0
    logits = functional.linear(hidden[counted], network.decoder.embed_tokens.weight)
    loss: Tensor = functional.cross_entropy(logits, window.targets[counted], reduction="sum")
    return loss


class HushTrainer(EpochTrainer[HushBatch]):
    """The hush word of a frozen network. The rate falls to a tenth, and no gradient is too long."""

    descent = Descent(warm_up=0.0, lowest=0.1, decay=0.0, eps=1e-8, clip=math.inf)

    def __init__(
        self, network: Whisper, lessons: Lessons[HushBatch], options: HushOptions, folder: Path, device: str
    ) -> None:
        self.options, self.network = options, network.to(device).eval().requires_grad_(False)
        # A stream of its own, apart from those of the batches, whose numbers are small.
        dice = np.random.RandomState([options.seed % 2**32, 2**31])
        noise = options.start * dice.standard_normal(to_samples(options.seconds))
        self.hush = torch.tensor(noise, dtype=torch.float32, device=device, requires_grad=True)
        super().__init__([self.hush], lessons, options, folder, device)

    def loss(self, batch: HushBatch) -> Tensor:
        """Cross-entropy of the next tokens."""
        return torch.stack([hush_loss(self.network, self.hush, window) for window in batch.windows]).sum()

    def pieces(self, part: HushBatch) -> Iterator[HushBatch]:
        """One window at a time."""
        return (HushBatch([window]) for window in part.windows)

    def result(self) -> HushWord:
        """The best epochs averaged, or the very best one where the average is no better."""
        self.take([torch.zeros_like(self.hush)])
        zeros = self.held_out_loss()
        averaged, loss = self.take_mean((len(self.best), 1))
        measured = {
            "held_out": round(loss, 4),
            "held_out_zeros": round(zeros, 4),
            "kept": "average" if averaged == len(self.best) else "best",
            "epochs": [epoch.step for epoch in self.best],
            "rms": round(float(self.hush.detach().square().mean().sqrt()), 4),
        }
        return HushWord(self.hush.detach().cpu().numpy(), self.options.content_hash, self.report(measured))


def open_trainer(
    network: Whisper, tokenizer: Tokenizer, speech: Shards, options: HushOptions, folder: Path, device: str = "cpu"
) -> HushTrainer:
    """A run in `folder`: a new one, or the one there is, which goes on.

    Sentences that are reserved for evaluation are left out. Raises `CorpusError` where there is too little speech,
    `OptionError` where the run that is there has other options or other speech, `OutputError` where the folder cannot
    be written.
    """
    usable = unreserved(speech)
    note_options(options, folder, speech)
    tested = replace(options, held_out=-(-options.held_out // options.batch))
    learned = speech_lessons(HushBatches, usable, tokenizer, network.dims.n_mels, options, tested)
    windows = [window for batch in learned.held_out for window in batch.windows][: options.held_out]
    learned = replace(learned, held_out=[HushBatch(windows)])
    return HushTrainer(network, learned, options, folder, device).resume()
