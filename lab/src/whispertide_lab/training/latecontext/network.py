"""The whole network: mel frames, convolutions that subsample, the encoder of its kind, CTC and the decoder.

A late network streams up to its attention: a frame there depends on what came before alone.
"""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from whispertide.errors import CheckpointError
from whispertide.understand.checkpoint import Arrays, LateDims
from whispertide_lab.training.latecontext.attention import AttentionLayer, positions
from whispertide_lab.training.latecontext.batches import LateBatch
from whispertide_lab.training.latecontext.branchformer import BranchformerLayer
from whispertide_lab.training.latecontext.cgmlp import GatedConvolution
from whispertide_lab.training.latecontext.conformer import ConformerLayer
from whispertide_lab.training.latecontext.decoder import Decoder


class Subsampling(nn.Module):  # type: ignore[misc]
    """Two convolutions of stride 2: a frame from its four mel frames and three before them."""

    def __init__(self, dims: LateDims) -> None:
        super().__init__()
        self.first = nn.Conv1d(dims.n_mels, dims.width, 3, stride=2)
        self.second = nn.Conv1d(dims.width, dims.width, 3, stride=2)

    def forward(self, mel: Tensor) -> Tensor:
        """[b, mels, 4 t] -> [b, t, width]."""
        half = functional.gelu(self.first(functional.pad(mel, (1, 0))))
        return functional.gelu(self.second(functional.pad(half, (1, 0)))).transpose(1, 2)


class Encoder(nn.Module):  # type: ignore[misc]
    """Layers of gated convolution, then layers with attention; rivals have one kind alone."""

    def __init__(self, dims: LateDims, dropout: float) -> None:
        super().__init__()
        self.dims = dims
        self.subsampling = Subsampling(dims)
        self.convolving = nn.ModuleList(
            GatedConvolution(dims.width, dims.inner, dims.kernel, dropout) for _ in range(dims.streaming_layers)
        )
        self.attending = nn.ModuleList(_attending(dims, dropout) for _ in range(dims.layers - dims.streaming_layers))
        self.norm = nn.LayerNorm(dims.width)

    def ingested(self, mel: Tensor) -> Tensor:
        """The part that streams: [b, mels, 4 t] -> [b, t, width]."""
        frames: Tensor = self.subsampling(mel)
        for layer in self.convolving:
            frames = layer(frames)
        return frames

    def forward(self, mel: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Frames [b, t, width], and which of them count, bool [b, 1, 1, t] (None: all); `lengths` [b] in frames."""
        frames = self.ingested(mel)
        mask = None
        if lengths is not None:
            mask = (torch.arange(frames.shape[1], device=frames.device) < lengths[:, None])[:, None, None]
        return self.contextualised(frames, mask), mask

    def contextualised(self, frames: Tensor, mask: Tensor | None) -> Tensor:
        """The part that waits for the end of speech: [b, t, width] -> the same shape."""
        frames = frames + positions(frames.shape[1], frames.shape[2]).to(frames)
        for layer in self.attending:
            frames = layer(frames, mask)
        out: Tensor = self.norm(frames)
        return out


def _attending(dims: LateDims, dropout: float) -> nn.Module:
    if dims.kind == "late":
        return AttentionLayer(dims.width, dims.heads, dims.after_attention, dropout)
    kinds = {"branchformer": BranchformerLayer, "conformer": ConformerLayer}
    return kinds[dims.kind](dims.width, dims.heads, dims.inner, dims.kernel, dropout)


class LateNetwork(nn.Module):  # type: ignore[misc]
    """Encoder, CTC head and decoder."""

    def __init__(self, dims: LateDims, dropout: float = 0.1) -> None:
        super().__init__()
        self.dims = dims
        self.encoder = Encoder(dims, dropout)
        self.ctc = nn.Linear(dims.width, dims.n_vocab + 1)  # the blank is the last
        self.decoder = Decoder(dims, dropout)

    def forward(self, mel: Tensor, lengths: Tensor | None, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """CTC's log probabilities [b, t, n_vocab + 1], and logits [b, n, n_vocab] of what follows each token."""
        frames, mask = self.encoder(mel, lengths)
        return self.ctc(frames).float().log_softmax(-1), self.decoder(tokens, frames, mask)

    def text_loss(self, logits: Tensor, batch: LateBatch, smoothing: float) -> Tensor:
        """The decoder's, summed over the tokens that count."""
        counted = batch.targets >= 0
        return functional.cross_entropy(
            logits[counted].float(), batch.targets[counted], label_smoothing=smoothing, reduction="sum"
        )


def tensors_of(network: nn.Module) -> Arrays:
    """The weights by name, as a checkpoint has them."""
    return {name: value.detach().cpu().numpy().astype(np.float32) for name, value in network.state_dict().items()}


def load_tensors(network: nn.Module, tensors: Arrays) -> None:
    """Take the weights of a checkpoint. Raises `CheckpointError` where they are those of another shape."""
    try:
        network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in tensors.items()})
    except RuntimeError as error:
        raise CheckpointError(
            f"expected the weights of a {network.dims.kind} network of this shape: {error}"
        ) from error


def parameter_count(parameters: Iterable[Tensor]) -> int:
    """How many numbers."""
    return sum(parameter.numel() for parameter in parameters)
