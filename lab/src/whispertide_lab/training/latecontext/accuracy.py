"""What a trained network of any kind makes of whole commands: words and intents (pilot inference, table 3).

One of them has no graphs, so all run in torch here, without pilots and without a voice gate. Waits are measured
where networks run as they would (`understood.py`, `encoder_table.py`).
"""

from dataclasses import dataclass

import numpy as np
import torch

from whispertide.types import FloatArray, IntArray
from whispertide.understand.checkpoint import LateCheckpoint
from whispertide.understand.ctc_attention import CtcAttentionOptions, ctc_attention_search
from whispertide.understand.model import features
from whispertide_lab.evaluation.wer import align
from whispertide_lab.training.latecontext.network import LateNetwork, load_tensors
from whispertide_lab.training.latecontext.run import make_network
from whispertide_lab.training.latecontext.transducer import Transducer
from whispertide_lab.training.latecontext.understood import around
from whispertide_lab.training.shards import Utterance


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a command: word errors and words, and whether the intent is right."""

    errors: int
    words: int
    right: bool


class Listener:
    """A checkpoint of any kind, ready to hear. Raises `CheckpointError` where weights and shape do not fit."""

    def __init__(self, checkpoint: LateCheckpoint, search: CtcAttentionOptions | None = None) -> None:
        self.checkpoint, self.search = checkpoint, search or CtcAttentionOptions()
        self.network = make_network(checkpoint.dims, dropout=0.0).eval()
        load_tensors(self.network, checkpoint.tensors)

    def hear(self, said: Utterance) -> Answer:
        """One command, with silence around it."""
        meant = self.checkpoint.understood(*self.tokens(around(said)))
        counts = align(said.text.split(), meant.text.split()).words
        return Answer(counts.errors, counts.reference, meant.intent == said.intent)

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def tokens(self, samples: FloatArray) -> tuple[list[int], FloatArray | None]:
        """Of the best text for 16 kHz mono [n], and how likely each token is the first, where that is known."""
        mel = torch.from_numpy(features(samples, self.checkpoint.dims.n_mels))[None]
        if isinstance(self.network, Transducer):
            return self.network.greedy(mel), None
        frames, _ = self.network.encoder(mel, None)
        ctc = self.network.ctc(frames)[0].log_softmax(-1).double().numpy()
        found = ctc_attention_search(ctc, _Scorer(self.network, frames), self.search)
        return list(found.best.tokens), found.first


@dataclass(frozen=True, slots=True)
class _Texts:
    """Rows of tokens, which the decoder reads anew for each token."""

    tokens: IntArray

    def rows(self, chosen: IntArray) -> "_Texts":
        return _Texts(self.tokens[chosen])

    def cut(self, length: int) -> "_Texts":
        return _Texts(self.tokens[:, :length])


@dataclass(frozen=True, slots=True)
class _Scorer:
    network: LateNetwork
    frames: torch.Tensor  # [1, t, width]

    def start(self) -> _Texts:
        return _Texts(np.zeros((1, 0), np.int64))

    def score(self, state: _Texts, tokens: IntArray) -> tuple[FloatArray, _Texts]:
        texts = np.concatenate([state.tokens, tokens[:, None]], axis=1)
        return self._scores(texts)[:, -1], _Texts(texts)

    def read(self, tokens: IntArray) -> tuple[FloatArray, _Texts]:
        return self._scores(tokens), _Texts(tokens)

    def _scores(self, texts: IntArray) -> FloatArray:
        frames = self.frames.expand(len(texts), -1, -1)
        scores: FloatArray = self.network.decoder(torch.from_numpy(texts), frames, None).log_softmax(-1).numpy()
        return scores
