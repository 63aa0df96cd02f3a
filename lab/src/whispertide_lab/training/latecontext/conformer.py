"""Conformer's layer: half a feed-forward part, attention, convolution, the other half (Gulati et al. 2020)."""

from torch import Tensor, nn
from torch.nn import functional

from whispertide_lab.training.latecontext.attention import Attention, FeedForward


class ConformerLayer(nn.Module):  # type: ignore[misc]
    """The convolution looks back only, as everywhere in the family, and is normed over channels, not over the batch."""

    def __init__(self, width: int, heads: int, inner: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.before = FeedForward(width, inner, dropout)
        self.attention = Attention(width, heads)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.convolution = nn.Conv1d(width, width, kernel, groups=width)
        self.inner_norm = nn.LayerNorm(width)
        self.down = nn.Linear(width, width)
        self.after = FeedForward(width, inner, dropout)
        self.last_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, frames: Tensor, mask: Tensor | None) -> Tensor:
        """[b, t, width] -> the same shape; `mask` as in `Attention`."""
        frames = frames + 0.5 * self.dropout(self.before(frames))
        frames = frames + self.dropout(self.attention(frames, None, mask))
        frames = frames + self.dropout(self._convolved(frames))
        frames = frames + 0.5 * self.dropout(self.after(frames))
        out: Tensor = self.last_norm(frames)
        return out

    def _convolved(self, frames: Tensor) -> Tensor:
        gated = functional.glu(self.up(self.norm(frames)))
        before = functional.pad(gated.transpose(1, 2), (self.convolution.kernel_size[0] - 1, 0))
        out: Tensor = self.down(functional.silu(self.inner_norm(self.convolution(before).transpose(1, 2))))
        return out
