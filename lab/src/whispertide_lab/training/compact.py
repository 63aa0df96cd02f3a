"""The part of the vocabulary that the training text uses, and one row that stands for all the rest.

Most of Whisper's 51,864 tokens never occur in a small corpus, yet the output layer over them is half of the work. Rows
that are not used can be kept equal to each other for ever without changing anything: their share of the softmax is that
of one row counted so many times. So the network is trained on the rows in use and that one, exactly as if it had been
trained on all, and written out in full. (A row that is only ever pushed down grows without bound when it is left out of
the loss: it must be in it.)

Needs torch.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from whispertide.checkpoint.tokenizer import N_TIMESTAMPS, Tokenizer
from whispertide_lab.training.network import Whisper


@dataclass(frozen=True, slots=True)
class CompactVocabulary:
    """`used` are the token ids in use, ascending; row `len(used)` stands for the others of `full`."""

    used: npt.NDArray[np.int64]
    full: int

    @property
    def others(self) -> int:
        """How many tokens the last row stands for."""
        return self.full - len(self.used)

    @property
    def stamps(self) -> range:
        """The rows of the timestamps, which are the last tokens of any Whisper; none if not all of them are in use."""
        rows = np.flatnonzero(self.used >= self.full - N_TIMESTAMPS)
        return range(rows[0], rows[-1] + 1) if len(rows) == N_TIMESTAMPS else range(0)

    def rows(self) -> npt.NDArray[np.int64]:
        """[full]: the row of each token."""
        rows = np.full(self.full, len(self.used), np.int64)
        rows[self.used] = np.arange(len(self.used))
        return rows

    def shrink(self, network: Whisper) -> None:
        """Keep the rows in use, in place; the one for the rest is the mean of the others.

        It changes nothing of what the network computes if the rows not in use are equal to each other.
        """
        full = network.decoder.embed_tokens.weight.data
        used = full[torch.from_numpy(self.used)]
        rest = full[torch.from_numpy(self._unused())] if self.others else used
        network.decoder.embed_tokens = _embedding(torch.cat([used, rest.mean(0, keepdim=True)]))

    def _unused(self) -> npt.NDArray[np.int64]:
        return np.setdiff1d(np.arange(self.full), self.used)

    def expand(self, network: Whisper) -> None:
        """All rows again, in place."""
        compact = network.decoder.embed_tokens.weight.data
        network.decoder.embed_tokens = _embedding(compact[torch.from_numpy(self.rows()).to(compact.device)])

    def logits(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """Of every row for `hidden` [n, width], that for the rest as all of them together. `weight` [rows, width]."""
        logits = functional.linear(hidden, weight).float()
        if not self.others:
            return logits[:, :-1]
        return torch.cat([logits[:, :-1], logits[:, -1:] + math.log(self.others)], dim=1)


def whole_vocabulary(full: int) -> CompactVocabulary:
    """All tokens in use: for fine-tuning a checkpoint whose other rows must stay as they are."""
    return CompactVocabulary(np.arange(full), full)


def tokens_in_use(texts: Iterable[str], tokenizer: Tokenizer) -> CompactVocabulary:
    """What these texts are made of, and what every model needs: single bytes, to spell any word, and special tokens."""
    used = {*range(256), *range(tokenizer.eot, tokenizer.vocab_size)}
    words = {word for text in texts for word in text.split()}
    for word in words:
        used.update(tokenizer.encode(" " + word))
    return CompactVocabulary(np.array(sorted(used)), tokenizer.vocab_size)


def _embedding(weight: Tensor) -> nn.Embedding:
    return nn.Embedding.from_pretrained(weight.clone(), freeze=False)
