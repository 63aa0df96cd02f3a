"""A Whisper that hears block by block, as torch computes it for training: what the encoder may see, what the decoder
may hear by a moment, and what it would write then.

One pass of the encoder serves all sample points of a window, because under the mask a frame is the same however much
sound follows it. Needs torch. Knows nothing of where speech comes from, or of optimisation.
"""

import torch
from torch import Tensor
from torch.nn import functional

from whispertide_lab.training.causal_batches import CausalBatch
from whispertide_lab.training.masks import block_causal
from whispertide_lab.training.network import Whisper


def encode(network: Whisper, mel: Tensor, block: int, first: int) -> Tensor:
    """Features [b, mels, 2 n + 1] to hidden states [b, n, width], where frames see no later block (`masks`): the first
    has `first` frames, the others `block`.

    The last mel frame is there for the convolutions alone: they look two ahead.
    """
    frames = mel.shape[2] // 2
    bias = torch.zeros(frames + 1, frames + 1)
    bias[:frames, :frames] = block_causal(frames, block, first)
    bias[:frames, frames] = float("-inf")
    encoded: Tensor = network.encoder(mel, bias.to(mel.device))
    return encoded[:, :frames]


def heard_until(limits: Tensor, frames: int) -> Tensor:
    """The bias of cross-attention [p, 1, 1, frames] that hides all frames from `limits` [p] on."""
    hidden = torch.arange(frames, device=limits.device)[None] >= limits[:, None]
    return torch.zeros(hidden.shape, device=limits.device).masked_fill(hidden, float("-inf"))[:, None, None]


def causal_loss(network: Whisper, batch: CausalBatch) -> Tensor:
    """Cross-entropy of the next tokens at all sample points, summed over the tokens that count."""
    longest = int(batch.limits.max())
    encoded = encode(network, batch.mel, batch.block, batch.first)[:, :longest]
    bias = heard_until(batch.limits, longest)
    hidden, _ = network.decoder(batch.tokens[batch.rows], encoded, bias=bias, rows=batch.rows)
    counted = batch.targets >= 0
    logits = functional.linear(hidden[counted], network.decoder.embed_tokens.weight)
    loss: Tensor = functional.cross_entropy(logits.float(), batch.targets[counted], reduction="sum")
    return loss
