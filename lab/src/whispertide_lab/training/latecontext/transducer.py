"""CNN with RNN-T: convolutions alone, and a recurrent network over the text so far that says what comes in each frame
(Graves 2012, arXiv 1211.3711). All of it streams. It is the rival that lacks attention (pilot inference, section 7.1).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from whispertide.understand.checkpoint import LateDims
from whispertide_lab.training.latecontext.batches import LateBatch
from whispertide_lab.training.latecontext.network import Encoder

_AT_ONCE = 5  # tokens in a frame at most


@dataclass(frozen=True, slots=True)
class Unjoined:
    """What a network says of the frames, [b, t, width], and of the text up to each token, [b, n, width]."""

    frames: Tensor
    text: Tensor


class Transducer(nn.Module):  # type: ignore[misc]
    """Encoder, a CTC head that helps it learn, the recurrent text network, and what joins the two."""

    def __init__(self, dims: LateDims, dropout: float = 0.1) -> None:
        super().__init__()
        self.dims, self.blank = dims, dims.n_vocab
        self.encoder = Encoder(dims, dropout)
        self.ctc = nn.Linear(dims.width, dims.n_vocab + 1)
        self.embedding = nn.Embedding(dims.n_vocab, dims.width)
        self.text = nn.LSTM(dims.width, dims.width, dims.decoding, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(dims.width, dims.n_vocab + 1)

    def forward(self, mel: Tensor, lengths: Tensor | None, tokens: Tensor) -> tuple[Tensor, Unjoined]:
        """CTC's log probabilities [b, t, n_vocab + 1], and what `text_loss` joins."""
        frames, _ = self.encoder(mel, lengths)
        text, _ = self.text(self.dropout(self.embedding(tokens)))
        return self.ctc(frames).float().log_softmax(-1), Unjoined(frames, text)

    def text_loss(self, said: Unjoined, batch: LateBatch, smoothing: float) -> Tensor:
        """Summed over the batch; labels are not smoothed.

        Only frames and tokens that are there are joined, some half of the batch: with a row of the vocabulary for each
        of them this is most of an update.
        """
        del smoothing
        counts = (batch.targets >= 0).sum(1) - 1
        within = torch.arange(said.frames.shape[1], device=counts.device) < batch.lengths[:, None]
        spoken = torch.arange(said.text.shape[1], device=counts.device) <= counts[:, None]
        both = within[:, :, None] & spoken[:, None]
        at = both.flatten().nonzero()[:, 0]
        inner = torch.tanh(said.frames[:, :, None] + said.text[:, None]).flatten(0, 2).index_select(0, at)
        logits = self.out(inner).float()
        following = batch.targets[:, None].expand_as(both).flatten()[at]
        asked = torch.stack([following, torch.full_like(following, self.blank)], 1)
        found = logits.gather(1, asked) - logits.logsumexp(1, keepdim=True)
        scores = found.new_zeros(both.numel(), 2).index_copy(0, at, found).view(*both.shape, 2)
        return transducer_loss(scores[:, :, :-1, 0], scores[..., 1], batch.lengths, counts).sum()

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def greedy(self, mel: Tensor) -> list[int]:
        """The likeliest token of each frame in turn, of one utterance [1, mels, 4 t]."""
        frames, _ = self.encoder(mel, None)
        found: list[int] = []
        text, state = self.text(self.embedding(torch.zeros(1, 1, dtype=torch.long)))
        for frame in frames[0]:
            for _ in range(_AT_ONCE):
                token = int(self.out(torch.tanh(frame + text[0, 0])).argmax())
                if token == self.blank:
                    break
                found.append(token)
                text, state = self.text(self.embedding(torch.tensor([[token]])), state)
        return found


def transducer_loss(tokens: Tensor, blanks: Tensor, frames: Tensor, counts: Tensor) -> Tensor:
    """Minus the log probability of each text over all ways to spread it over the frames, [b].

    tokens   [b, t, n - 1] log probabilities of the next token of the text, in each frame after each part of the text
    blanks   [b, t, n] those of going on to the next frame
    frames   [b], those that count
    counts   [b], tokens of each text, less than n

    Written here because torchaudio's, the well-kept one, has no build for torch without a GPU on the package index. The
    sum over the tokens of a frame is a running one, so that only frames are stepped through.
    """
    said = functional.pad(tokens.cumsum(-1), (1, 0))  # [b, t, n]: of the first tokens, all in this frame
    rows = torch.arange(len(said), device=said.device)
    ways, ended = said[:, 0], torch.zeros_like(said[:, 0, 0])
    for at in range(said.shape[1]):
        if at:
            before = ways + blanks[:, at - 1]
            ways = said[:, at] + (before - said[:, at]).logcumsumexp(-1)
        ended = torch.where(frames == at + 1, ways[rows, counts] + blanks[rows, at, counts], ended)
    return -ended
