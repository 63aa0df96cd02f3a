"""Batches to train a causal Whisper on: windows with the features that a stream has, and the moments they are asked at.

All windows of a batch have one length and blocks of one length, drawn by the dice, so that one checkpoint serves all
chunks from 100 ms to 1 s; or always the same. So is the length of the first block, which a stream makes longer. A batch
is a function of the seed and its number. Needs torch. Knows nothing of networks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from whispertide.checkpoint.causal import LONGEST_BLOCK, SHORTEST_BLOCK
from whispertide.errors import OptionError
from whispertide.features import raw_log_mel
from whispertide.methods.causal.blocks import block_ends
from whispertide.types import HOP_LENGTH, FloatArray
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.batches import SpeechBatches, Tensors, in_rows
from whispertide_lab.training.causal_features import causal_log_mel
from whispertide_lab.training.causal_labels import FRAMES_PER_SECOND, Ids, Spoken, sample_points
from whispertide_lab.training.windows import WindowOptions, compose

ANY = 0  # block: a length by the dice
FIRST = 30  # frames in the first block, 600 ms, or one block where that is longer; at least

# How often blocks of so many frames are drawn (ALGORITHMS E, "RCS").
_BLOCKS = tuple(range(5, 55, 5))
_WEIGHTS = (15, 20, 25, 20, 15, 1, 1, 1, 1, 1)


def first_block(block: int) -> int:
    """Frames in the first block, at least: a stream makes it longer by less than a block (`methods.causal.blocks`)."""
    return max(FIRST, block)


def stream_windows(language: str | None = None) -> WindowOptions:
    """Windows as a stream has them: no timestamps, and seldom a few words of what was before."""
    return WindowOptions(
        silent=0.05,
        timestamps=0.0,
        prompt=0.05,
        cut_end=0.1,
        cut_start=0.1,
        prompt_tokens=16,
        language=language,
    )


@dataclass(frozen=True, slots=True)
class CausalBatchOptions:
    """How much there is in a batch: windows of one of `lengths_s`, drawn with `shares`, about `seconds` in all.

    `block` is frames of 20 ms, or `ANY`.
    """

    block: int = ANY
    seconds: float = 40.0
    lengths_s: tuple[float, ...] = (4.0, 6.0, 9.0, 14.0, 24.0)
    shares: tuple[float, ...] = (0.15, 0.25, 0.25, 0.25, 0.1)
    windows: WindowOptions = field(default_factory=stream_windows)

    def __post_init__(self) -> None:
        if self.block != ANY and not SHORTEST_BLOCK <= self.block <= LONGEST_BLOCK:
            raise OptionError(
                f"expected blocks of {SHORTEST_BLOCK} to {LONGEST_BLOCK} frames of 20 ms, or any; got {self.block}"
            )


@dataclass(slots=True)
class CausalBatch(Tensors):
    """Some windows and p sample points of them.

    block    frames in a block
    first    frames in the first block
    mel      [b, mels, 2 n + 1]: the encoder's last frame, n, is there for the convolutions alone
    tokens   int64 [b, length]
    rows     int64 [p], the window of each point
    limits   int64 [p], the frames that the decoder may hear
    targets  int64 [p, length], -1: does not count
    turns    int64 [p]: 0 for the first point of a window, in the order of the dice, then 1 ...
    """

    block: int
    first: int
    mel: Tensor
    tokens: Tensor
    rows: Tensor
    limits: Tensor
    targets: Tensor
    turns: Tensor

    @property
    def seconds(self) -> float:
        """Of sound."""
        return float(len(self.mel) * (self.mel.shape[2] // 2) / FRAMES_PER_SECOND)

    @property
    def count(self) -> int:
        """How many tokens count."""
        return int((self.targets >= 0).sum())

    def points(self, chosen: Tensor) -> "CausalBatch":
        """The same windows with some of the points: a mask [p], or places."""
        rows, limits, targets = self.rows[chosen], self.limits[chosen], self.targets[chosen]
        return CausalBatch(self.block, self.first, self.mel, self.tokens, rows, limits, targets, self.turns[chosen])


class CausalBatches(SpeechBatches[CausalBatch, CausalBatchOptions]):
    """Windows and what they should teach."""

    def make(self, number: int, dice: Dice) -> CausalBatch:
        """Batch `number`, by its dice."""
        options = self._options
        seconds = float(dice.choice(options.lengths_s, p=np.array(options.shares) / np.sum(options.shares)))
        block = options.block or int(dice.choice(_BLOCKS, p=np.array(_WEIGHTS) / np.sum(_WEIGHTS)))
        # A stream's first block is so much longer that a block ends where its first round does: anywhere.
        first = first_block(block) + int(dice.randint(block))
        count = max(1, round(options.seconds / seconds))
        windows = [self._window(seconds, block, first, dice) for _ in range(count)]
        return collate(windows, block, first, self._tokenizer.eot)

    def _window(self, seconds: float, block: int, first: int, dice: Dice) -> "_Asked":
        window = compose(self._draw, self._tokenizer, seconds, dice, self._options.windows)
        spoken = Spoken.of(window, self._tokenizer, seconds)
        frames = round(seconds * FRAMES_PER_SECOND)
        blocks = block_ends(frames, block, first)
        points = sample_points(spoken, (*(end for end in blocks if end < frames), frames), block, dice)
        raw = raw_log_mel(window.samples, self._n_mels, padding=HOP_LENGTH)
        targets = [spoken.by(point / FRAMES_PER_SECOND, self._tokenizer.eot) for point in points]
        return _Asked(causal_log_mel(raw, blocks), spoken.tokens, points, targets)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A window: its features, its tokens, the points in frames, and what should be said at each."""

    mel: FloatArray
    tokens: Ids
    points: Sequence[int]
    targets: Sequence[Ids]


def collate(windows: Sequence[_Asked], block: int, first: int, filler: int) -> CausalBatch:
    """Windows of one length as tensors; `filler` is the token after the shorter rows, which does not count."""
    return CausalBatch(
        block,
        first,
        torch.from_numpy(np.stack([window.mel for window in windows])),
        in_rows([window.tokens for window in windows], filler),
        torch.tensor([row for row, window in enumerate(windows) for _ in window.points]),
        torch.tensor([point for window in windows for point in window.points]),
        in_rows([wanted for window in windows for wanted in window.targets], -1),
        torch.tensor([turn for window in windows for turn in range(len(window.points))]),
    )
