"""Who may attend to whom in the encoder: biases that are added to its self-attention scores.

Each is float32 [frames, frames], row reads column: 0 where it may, minus infinity where not, or a slope. The later
recipes need them: causal (WhisperRT), blocks (WhisperKit), blocks that also see those before them, and the local slope
that gets training from scratch off the ground (Press et al. 2022, "Train short, test long", made symmetric).

Needs torch. Knows nothing of networks.
"""

import torch
from torch import Tensor


def causal(frames: int) -> Tensor:
    """Every frame sees itself and those before it."""
    return _allowed(torch.arange(frames)[:, None] >= torch.arange(frames)[None])


def block_diagonal(frames: int, block: int) -> Tensor:
    """Frames see only their own block of `block` frames."""
    number = torch.arange(frames) // block
    return _allowed(number[:, None] == number[None])


def block_causal(frames: int, block: int) -> Tensor:
    """Frames see their own block and all before it."""
    number = torch.arange(frames) // block
    return _allowed(number[:, None] >= number[None])


def local_slope(frames: int, heads: int, strength: float) -> Tensor:
    """[heads, frames, frames]: a penalty that grows with distance, steeper for some heads; none at strength 0."""
    distance = (torch.arange(frames)[:, None] - torch.arange(frames)[None]).abs().float()
    slopes = 2.0 ** -torch.arange(1, heads + 1).float()
    return -strength * slopes[:, None, None] * distance


def _allowed(mask: Tensor) -> Tensor:
    return torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
