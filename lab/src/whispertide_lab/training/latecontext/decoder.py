"""The shallow decoder: text so far, attention over the encoder's frames, the next token."""

from torch import Tensor, nn

from whispertide.understand.checkpoint import LateDims
from whispertide_lab.training.latecontext.attention import Attention, FeedForward, positions


class DecoderLayer(nn.Module):  # type: ignore[misc]
    """Attention over the text, over the frames, and the feed-forward part, with residuals."""

    def __init__(self, dims: LateDims, dropout: float) -> None:
        super().__init__()
        self.text = Attention(dims.width, dims.heads)
        self.frames = Attention(dims.width, dims.heads)
        self.feed_forward = FeedForward(dims.width, dims.inner, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, frames: Tensor, mask: Tensor | None) -> Tensor:
        """[b, n, width] -> the same shape."""
        hidden = hidden + self.dropout(self.text(hidden, None, None, causal=True))
        hidden = hidden + self.dropout(self.frames(hidden, frames, mask))
        out: Tensor = hidden + self.dropout(self.feed_forward(hidden))
        return out


class Decoder(nn.Module):  # type: ignore[misc]
    """`decoding` layers; the embedding of a token is also what scores it."""

    def __init__(self, dims: LateDims, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(dims.n_vocab, dims.width)
        nn.init.normal_(self.embedding.weight, std=dims.width**-0.5)
        self.layers = nn.ModuleList(DecoderLayer(dims, dropout) for _ in range(dims.decoding))
        self.norm = nn.LayerNorm(dims.width)

    def forward(self, tokens: Tensor, frames: Tensor, mask: Tensor | None) -> Tensor:
        """Logits [b, n, n_vocab] of what follows each of `tokens` [b, n] over `frames` [b, t, width]."""
        hidden = self.embedding(tokens) * self.embedding.embedding_dim**0.5
        hidden = hidden + positions(tokens.shape[1], hidden.shape[-1]).to(hidden)
        for layer in self.layers:
            hidden = layer(hidden, frames, mask)
        logits: Tensor = self.norm(hidden) @ self.embedding.weight.T
        return logits
