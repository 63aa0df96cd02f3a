"""Branchformer's layer: attention and gated convolution side by side, mixed by weights that are learned.

The weights tell in which layers attention is needed at all: that is how the late network's shape is chosen (pilot
inference, section 4; Peng et al. 2022, section 3.4).
"""

import torch
from torch import Tensor, nn

from whispertide_lab.training.latecontext.attention import Attention
from whispertide_lab.training.latecontext.cgmlp import GatedConvolution


class BranchformerLayer(nn.Module):  # type: ignore[misc]
    """Both branches of the same frames, each pooled to say how much it counts in this utterance."""

    def __init__(self, width: int, heads: int, inner: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.convolution = GatedConvolution(width, inner, kernel, dropout)
        self.pools = nn.ModuleList(nn.Linear(width, 1) for _ in range(2))
        self.scores = nn.ModuleList(nn.Linear(width, 1) for _ in range(2))
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def weights(self, branches: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        """[b, 2]: of the attention and of the convolution, adding up to one."""
        scores = []
        for branch, pool, score in zip(branches, self.pools, self.scores, strict=True):
            looks = pool(branch).squeeze(-1)
            if mask is not None:
                looks = looks.masked_fill(~mask[:, 0, 0], -torch.inf)
            pooled = (looks.softmax(-1)[..., None] * branch).sum(1)
            scores.append(score(pooled))
        return torch.cat(scores, dim=-1).softmax(-1)

    def branches(self, frames: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """What each says, [b, t, width], residuals apart."""
        return self.dropout(self.attention(frames, None, mask)), self.convolution(frames) - frames

    def forward(self, frames: Tensor, mask: Tensor | None) -> Tensor:
        """[b, t, width] -> the same shape; `mask` as in `Attention`."""
        both = self.branches(frames, mask)
        weights = self.weights(both, mask)[..., None, None]
        mixed = weights[:, 0] * both[0] + weights[:, 1] * both[1]
        out: Tensor = frames + self.dropout(self.out(mixed))
        return out
