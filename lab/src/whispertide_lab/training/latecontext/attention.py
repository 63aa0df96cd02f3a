"""Attention and the feed-forward part after it, as every network of the family has them."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):  # type: ignore[misc]
    """Multi-head attention of `queries` over `memory`, with LN before and without a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, frames: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool = False) -> Tensor:
        """[b, n, width] from `frames` [b, n, width] over `memory` [b, m, width], or over `frames` themselves.

        mask: bool [b, 1, 1, m], what may be looked at.
        """
        normed = self.norm(frames)
        seen = normed if memory is None else memory
        parts = (self.query(normed), self.key(seen), self.value(seen))
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


class FeedForward(nn.Module):  # type: ignore[misc]
    """LN, linear, GELU, linear; without a residual."""

    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, frames: Tensor) -> Tensor:
        """[b, n, width] -> the same shape."""
        out: Tensor = self.down(self.dropout(functional.gelu(self.up(self.norm(frames)))))
        return out


class AttentionLayer(nn.Module):  # type: ignore[misc]
    """Attention over all frames, then the feed-forward part, with residuals; with an `inner` of 0 there is none."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.feed_forward = FeedForward(width, inner, dropout) if inner else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, frames: Tensor, mask: Tensor | None) -> Tensor:
        """[b, t, width] -> the same shape; `mask` as in `Attention`."""
        out: Tensor = frames + self.dropout(self.attention(frames, None, mask))
        return out if self.feed_forward is None else out + self.dropout(self.feed_forward(out))


def positions(count: int, width: int, first: int = 0) -> Tensor:
    """Sinusoids [count, width] of the places from `first` on (Vaswani et al. 2017, 3.5)."""
    slowness = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(first, first + count)[:, None] * slowness
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
