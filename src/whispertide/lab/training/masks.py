"""Who may attend to whom in the encoder: biases that are added to its self-attention scores.

Each is float32 [frames, frames], row reads column: 0 where it may, minus infinity where not, or a slope. There
are blocks that see nothing but themselves (WhisperKit), blocks that also see what was before them (WhisperRT), and the
local slope that gets training from scratch off the ground (Press et al. 2022, "Train short, test long", symmetric).

Needs torch. Knows nothing of networks.
"""

import torch
from torch import Tensor

from whispertide.features import block_ends


def block_diagonal(frames: int, block: int) -> Tensor:
    """Frames see only their own block of `block` frames."""
    number = torch.arange(frames) // block
    return torch.zeros(frames, frames).masked_fill(number[:, None] != number[None], float("-inf"))


def block_causal(frames: int, block: int, first: int) -> Tensor:
    """Frames see their own block and all before it: the first has `first` frames, the others `block` (WhisperRT)."""
    ends = torch.tensor(block_ends(frames, block, first))
    number = torch.bucketize(torch.arange(frames), ends, right=True)
    return torch.zeros(frames, frames).masked_fill(torch.arange(frames)[None] >= ends[number][:, None], float("-inf"))


def local_slope(frames: int, heads: int, strength: float) -> Tensor:
    """[heads, frames, frames]: a penalty that grows with distance, steeper for some heads; none at strength 0."""
    distance = (torch.arange(frames)[:, None] - torch.arange(frames)[None]).abs().float()
    slopes = 2.0 ** -torch.arange(1, heads + 1).float()
    return -strength * slopes[:, None, None] * distance
