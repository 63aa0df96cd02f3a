"""What training minimises: next tokens, and two helpers that get a small Whisper off the ground.

Characters by CTC on the encoder (Graves et al. 2006; as an auxiliary loss: Kim et al. 2017): the encoder learns to hear
before the decoder listens. Guided cross-attention (after Tachibana et al. 2018): a few heads are told where the next
token is heard; they are then the alignment heads.

Both are sums; dividing by how much counted is the loop's business, so that batches can be accumulated. Needs torch.
Knows nothing of data or optimisation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

CHARACTERS = "abcdefghijklmnopqrstuvwxyz' 0123456789"  # class 0 is the blank
_CLASS = {character: number for number, character in enumerate(CHARACTERS, start=1)}
FRAMES_PER_SECOND = 50


def spelled(text: str) -> list[int]:
    """Classes of the letters of a text; punctuation is not heard."""
    return [_CLASS[character] for character in " ".join(text.lower().split()) if character in _CLASS]


@dataclass(frozen=True, slots=True)
class Blur:
    """Timestamps taught with their neighbours, because a model that hears a late one seldom cannot learn each alone.

    A bell of standard deviation `width`, in rows, stands where the target is, if that is among `stamps`, the rows of
    the timestamps in order of time; what of it lies beyond these goes to the rest of it.
    """

    stamps: range
    width: float

    def bells(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The shares [n, w] of the targets [n] and the rows [n, w] that have them; each line's sum is 1."""
        reach = math.ceil(3 * self.width)
        away = torch.arange(-reach, reach + 1, device=targets.device)
        rows = targets[:, None] + away
        counts = (self._among(rows) & self._among(targets)[:, None]) | (away == 0)
        shares = torch.exp(-((away / self.width) ** 2) / 2) * counts
        return shares / shares.sum(1, keepdim=True), torch.where(counts, rows, targets[:, None])

    def _among(self, rows: Tensor) -> Tensor:
        return (rows >= self.stamps.start) & (rows < self.stamps.stop)


class CharacterHead(nn.Module):  # type: ignore[misc]
    """The encoder's hidden states to characters; used in training alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, len(CHARACTERS) + 1)

    def loss(self, hidden: Tensor, texts: Sequence[str]) -> Tensor:
        """CTC loss summed over the texts that are not empty. `hidden` [batch, frames, width].

        A text with more letters than there are frames for does not count.
        """
        spellings = [spelled(text) for text in texts]
        rows = [row for row, letters in enumerate(spellings) if letters]
        if not rows:
            return hidden.sum() * 0
        scores = self.output(hidden[rows]).float().log_softmax(-1).transpose(0, 1)
        letters = torch.tensor([letter for row in rows for letter in spellings[row]], device=scores.device)
        lengths = torch.tensor([len(spellings[row]) for row in rows])
        frames = torch.full((len(rows),), hidden.shape[1])
        loss: Tensor = functional.ctc_loss(scores, letters, frames, lengths, reduction="sum", zero_infinity=True)
        return loss


def next_tokens(logits: Tensor, targets: Tensor, smoothing: float, blur: Blur | None = None) -> Tensor:
    """Summed cross-entropy of the next tokens. `logits` [n, rows], `targets` rows [n].

    `smoothing` is shared by the rows, so what stands for many tokens gets one part of it.
    """
    logits = logits.float()  # of bfloat16 the sums would keep two digits
    if blur is None:
        return functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    shares, columns = blur.bells(targets)
    scores, total = logits.gather(1, columns), logits.logsumexp(1)
    loss = (total - (shares * scores).sum(1)).sum()
    return (1 - smoothing) * loss + smoothing * (total - logits.mean(1)).sum()


def departure(logits: Tensor, known: Tensor) -> Tensor:
    """How far the next tokens' probabilities went from those that were `known`: summed Kullback-Leibler divergence.

    Both are logits [n, rows]. So a network that learns something new keeps what it knew, without the speech that it
    knows it from (learning without forgetting, Li and Hoiem 2016).
    """
    distance: Tensor = functional.kl_div(
        logits.float().log_softmax(1), known.float().log_softmax(1), reduction="sum", log_target=True
    )
    return distance


def guidance(weights: Tensor, places: Tensor, slack_s: float) -> Tensor:
    """Minus the log of the attention that falls within `slack_s` of where each target is heard.

    Summed over the targets whose place is known, mean over heads. `weights` [batch, heads, n, frames]; `places`
    [batch, n, 2] in seconds, negative where there is none.
    """
    frames = torch.arange(weights.shape[-1], device=weights.device) / FRAMES_PER_SECOND
    inside = (frames >= places[..., :1] - slack_s) & (frames <= places[..., 1:] + slack_s)
    mass = (weights * inside[:, None]).sum(-1)
    loss = -(mass + 1e-4).log().mean(1)
    return (loss * (places[..., 0] >= 0)).sum()
