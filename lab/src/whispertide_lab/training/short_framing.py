"""How a student hears short windows: bare, or with a few frames of merged padding after them (`merged_padding`).

Needs torch.
"""

from collections import deque

import torch
from torch import Tensor

from whispertide.features import padded
from whispertide.streaming.framing import FRAMES_PER_S, TAUGHT_ZEROS_S
from whispertide.streaming.merged_padding import merge_padding
from whispertide_lab.training.network import Whisper


def encode_short(network: Whisper, bare: Tensor, merged: int) -> Tensor:
    """Encode windows [b, mels, frames] as `taught_framing(merged)` does: [b, frames, width], with a gradient."""
    if not merged:
        encoded: Tensor = network.encoder(bare)
        return encoded
    near = bare.shape[2] // 2 + round(TAUGHT_ZEROS_S * FRAMES_PER_S)
    positions, bias = merge_padding(near, merged, len(network.encoder.embed_positions.weight))
    mel = torch.stack([torch.from_numpy(padded(row.cpu().numpy(), 2 * (near + merged))) for row in bare])
    at, added = (torch.from_numpy(values).to(bare.device) for values in (positions, bias))
    (last,) = deque(network.encoder.layer_outputs(mel.to(bare.device), added, at), maxlen=1)
    return network.encoder.layer_norm(last)
