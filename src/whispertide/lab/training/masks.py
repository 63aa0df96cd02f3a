"""Who may attend to whom in the encoder: biases that are added to its self-attention scores.

Each is float32 [frames, frames], row reads column: 0 where it may, minus infinity where not.

Needs torch. Knows nothing of networks.
"""

import torch
from torch import Tensor

from whispertide.features import block_ends


def block_causal(frames: int, block: int, first: int) -> Tensor:
    """Frames see their own block and all before it: the first has `first` frames, the others `block` (WhisperRT)."""
    ends = torch.tensor(block_ends(frames, block, first))
    number = torch.bucketize(torch.arange(frames), ends, right=True)
    return torch.zeros(frames, frames).masked_fill(torch.arange(frames)[None] >= ends[number][:, None], float("-inf"))
