"""CNN with RNN-T: convolutions alone, and a recurrent network over the text so far that says what comes in each frame
(Graves 2012, arXiv 1211.3711). All of it streams. It is the rival that lacks attention (pilot inference, section 7.1).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from whispertide.checkpoint.latecontext import LateDims
from whispertide.lab.training.latecontext.batches import LateBatch
from whispertide.lab.training.latecontext.network import Encoder

_AT_ONCE = 5  # tokens in a frame at most


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

    def forward(self, mel: Tensor, lengths: Tensor | None, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """CTC's log probabilities [b, t, n_vocab + 1]; those of each frame after each text, [b, t, n, n_vocab + 1]."""
        frames, _ = self.encoder(mel, lengths)
        text, _ = self.text(self.dropout(self.embedding(tokens)))
        return self.ctc(frames).float().log_softmax(-1), self.joined(frames[:, :, None], text[:, None])

    def joined(self, frames: Tensor, text: Tensor) -> Tensor:
        """Log probabilities of what a frame says after a text."""
        return self.out(torch.tanh(frames + text)).float().log_softmax(-1)

    def text_loss(self, scores: Tensor, batch: LateBatch, smoothing: float) -> Tensor:
        """Summed over the batch; labels are not smoothed."""
        del smoothing
        return transducer_loss(scores, batch.targets, batch.lengths, (batch.targets >= 0).sum(1) - 1, self.blank).sum()

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def greedy(self, mel: Tensor) -> list[int]:
        """The likeliest token of each frame in turn, of one utterance [1, mels, 4 t]."""
        frames, _ = self.encoder(mel, None)
        found: list[int] = []
        text, state = self.text(self.embedding(torch.zeros(1, 1, dtype=torch.long)))
        for frame in frames[0]:
            for _ in range(_AT_ONCE):
                token = int(self.joined(frame, text[0, 0]).argmax())
                if token == self.blank:
                    break
                found.append(token)
                text, state = self.text(self.embedding(torch.tensor([[token]])), state)
        return found


def transducer_loss(scores: Tensor, targets: Tensor, frames: Tensor, counts: Tensor, blank: int) -> Tensor:
    """Minus the log probability of each text over all ways to spread it over the frames, [b].

    scores   [b, t, n, v] log probabilities; text of `counts` [b] < n tokens, the first of `targets` [b, n]
    frames   [b], those that count; `blank` goes on to the next frame

    Written here because torchaudio's, the well-kept one, has no build for torch without a GPU on the package index. The
    sum over the tokens of a frame is a running one, so that only frames are stepped through.
    """
    emitted = scores[:, :, :-1].gather(-1, targets[:, None, :-1, None].clamp(min=0).expand(-1, scores.shape[1], -1, 1))
    said = functional.pad(emitted[..., 0].cumsum(-1), (1, 0))  # [b, t, n]: of the first tokens, all in this frame
    on = scores[..., blank]
    rows = torch.arange(len(scores), device=scores.device)
    ways, ended = said[:, 0], torch.zeros(len(scores), device=scores.device)
    for at in range(scores.shape[1]):
        if at:
            before = ways + on[:, at - 1]
            ways = said[:, at] + (before - said[:, at]).logcumsumexp(-1)
        ended = torch.where(frames == at + 1, ways[rows, counts] + on[rows, at, counts], ended)
    return -ended
