"""Batches to teach an encoder to hear in blocks: windows as Whisper has them, padded to 30 s, and their text.

A batch is a function of the seed and its number. Needs torch. Knows nothing of networks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from whispertide.features import log_mel, padded
from whispertide.types import N_FRAMES
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.batches import SpeechBatches, Tensors, in_rows
from whispertide_lab.training.windows import Window, WindowOptions, compose


@dataclass(frozen=True, slots=True)
class MaskedBatchOptions:
    """`count` windows, each of one of `lengths_s` by the dice with `shares`: those that a stream has, and long ones."""

    count: int = 4
    lengths_s: tuple[float, ...] = (4.0, 8.0, 14.0, 20.0, 28.0)
    shares: tuple[float, ...] = (0.1, 0.15, 0.2, 0.25, 0.3)
    windows: WindowOptions = field(default_factory=WindowOptions)


@dataclass(slots=True)
class MaskedBatch(Tensors):
    """Some windows.

    mel      [b, mels, 3000] Whisper's features, silence after the audio
    frames   int64 [b], encoder frames that hold audio
    tokens   int64 [b, n], what the decoder is given
    counted  bool [b, n], whether what comes after a token counts
    seconds  of audio
    """

    mel: Tensor
    frames: Tensor
    tokens: Tensor
    counted: Tensor
    seconds: float

    @property
    def count(self) -> int:
        """How many tokens count."""
        return int(self.counted.sum())


class MaskedBatches(SpeechBatches[MaskedBatch, MaskedBatchOptions]):
    """Windows and what they should teach."""

    def make(self, number: int, dice: Dice) -> MaskedBatch:
        """Batch `number`, by its dice."""
        options = self._options
        shares = np.array(options.shares) / np.sum(options.shares)
        lengths = [float(dice.choice(options.lengths_s, p=shares)) for _ in range(options.count)]
        made = [compose(self._draw, self._tokenizer, length, dice, options.windows) for length in lengths]
        return _collated(made, self._n_mels, self._tokenizer.eot, sum(lengths))


def _collated(windows: Sequence[Window], n_mels: int, filler: int, seconds: float) -> MaskedBatch:
    """`filler` is the token after the shorter rows, which does not count."""
    mel = np.zeros((len(windows), n_mels, N_FRAMES), np.float32)
    frames = []
    for row, window in enumerate(windows):
        features = log_mel(window.samples, n_mels)
        mel[row] = padded(features, N_FRAMES)
        frames.append(-(-features.shape[1] // 2))
    tokens = in_rows([window.tokens for window in windows], filler)
    counted = in_rows([window.targets >= 0 for window in windows], False)
    return MaskedBatch(torch.from_numpy(mel), torch.tensor(frames), tokens, counted, seconds)
