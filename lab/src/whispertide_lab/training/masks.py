"""Who may attend to whom in the encoder: biases that are added to its self-attention scores.

Each is float32 [frames, frames], row reads column: 0 where it may, minus infinity where not.

Needs torch. Knows nothing of networks.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from whispertide.checkpoint.mask import Mask
from whispertide.methods.causal.blocks import block_ends


def block_causal(frames: int, block: int, first: int) -> Tensor:
    """Frames see their own block and all before it: the first has `first` frames, the others `block` (WhisperRT)."""
    number = _numbers(frames, block_ends(frames, block, first))
    return _bias(number[None] <= number[:, None])


def block_diagonal(frames: int, block: int) -> Tensor:
    """Frames see their own block of `block` frames and nothing else (WhisperKit's dN)."""
    number = _numbers(frames, block_ends(frames, block, block))
    return _bias(number[None] == number[:, None])


def mask_bias(mask: Mask, frames: int) -> Tensor:
    """The bias of a mask by WhisperKit's name."""
    return block_causal(frames, mask.block, mask.block) if mask.causal else block_diagonal(frames, mask.block)


def _numbers(frames: int, ends: Sequence[int]) -> Tensor:
    """The number of the block that each frame is in."""
    return torch.bucketize(torch.arange(frames), torch.tensor(ends), right=True)


def _bias(allowed: Tensor) -> Tensor:
    return torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf"))
