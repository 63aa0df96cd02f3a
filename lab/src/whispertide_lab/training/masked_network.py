"""A Whisper whose encoder hears in blocks (`checkpoint.mask`), as torch computes it for training, and how far that is
from the Whisper without blocks.

Needs torch. Knows nothing of where speech comes from, or of optimisation.
"""

from collections import deque

import torch
from torch import Tensor
from torch.nn import functional

from whispertide.checkpoint.mask import Mask
from whispertide_lab.training.losses import departure
from whispertide_lab.training.masked_batches import MaskedBatch
from whispertide_lab.training.masks import mask_bias
from whispertide_lab.training.network import Encoder, Whisper


def encode_masked(encoder: Encoder, mel: Tensor, mask: Mask) -> Tensor:
    """Windows [b, mels, 3000] to hidden states [b, 1500, width], as `model.masked` computes them.

    Every block is convolved alone. Under a diagonal mask it also goes through the layers alone; under a causal one the
    bias of the mask says what is heard.
    """
    parts = torch.stack(mel.split(mask.columns, dim=2), dim=1)  # [b, blocks, mels, columns]
    count = parts.shape[1]
    positions = encoder.embed_positions.weight[: count * mask.block].unflatten(0, (count, mask.block))
    x = encoder.stem(parts.flatten(0, 1)).unflatten(0, parts.shape[:2]) + positions
    if mask.causal:
        x, bias = x.flatten(1, 2), mask_bias(mask, count * mask.block).to(mel.device)
        (x,) = deque(encoder.layers_over(x, bias), maxlen=1)
    else:
        (x,) = deque(encoder.layers_over(x.flatten(0, 1)), maxlen=1)
        x = x.unflatten(0, parts.shape[:2]).flatten(1, 2)
    hidden: Tensor = encoder.layer_norm(x)
    return hidden


def distances(network: Whisper, teacher: Whisper, batch: MaskedBatch, mask: Mask) -> tuple[Tensor, Tensor]:
    """How far the network under the mask is from the teacher without it: what the encoder gives out, and the text.

    The first is the mean square difference of frames with audio, in parts of the teacher's variance there. The second
    is the divergence of the next tokens' probabilities after the true text, summed over the tokens that count.
    """
    with torch.no_grad():
        known = teacher.encoder(batch.mel)
        there = _logits(teacher, batch, known)
    heard = encode_masked(network.encoder, batch.mel, mask)
    audio = torch.arange(heard.shape[1], device=heard.device)[None] < batch.frames[:, None]
    error = (heard - known)[audio].square().mean() / known[audio].var()
    return error, departure(_logits(network, batch, heard), there)


def _logits(network: Whisper, batch: MaskedBatch, encoded: Tensor) -> Tensor:
    """Of the tokens that count [count, vocabulary]."""
    hidden, _ = network.decoder(batch.tokens, encoded)
    return functional.linear(hidden[batch.counted], network.decoder.embed_tokens.weight)
