"""What a causal Whisper would show at the end of every chunk, and how wrong that is: to choose among checkpoints.

At each chunk end the transcript is decoded anew, greedily, from the frames so far. So no search's own rules are in the
figure, and no streaming runtime is needed. ARWER sums the errors against the words that are over by then, and the words
of these references, over all chunk ends (WhisperRT, section on metrics; ALGORITHMS E). Needs torch and jiwer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from whispertide.audio.buffer import to_float
from whispertide.checkpoint import Tokenizer
from whispertide.features import raw_log_mel
from whispertide.methods.causal.blocks import block_ends
from whispertide.types import FRAME_SAMPLES, HOP_LENGTH, SAMPLE_RATE
from whispertide_lab.evaluation.wer import Counts, align
from whispertide_lab.training.causal_batches import first_block
from whispertide_lab.training.causal_features import causal_log_mel
from whispertide_lab.training.causal_labels import AFTER_S, FRAMES_PER_SECOND
from whispertide_lab.training.causal_network import encode, heard_until
from whispertide_lab.training.network import Whisper
from whispertide_lab.training.shards import Utterance

_PER_SECOND = 8  # tokens that are written at most, and a few more
_MORE = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """The text at a chunk end, and the words that were over by then."""

    text: str
    reference: tuple[str, ...]


def shown_at_ends(
    network: Whisper, tokenizer: Tokenizer, said: Utterance, block: int, language: str | None = None
) -> list[Shown]:
    """What is shown at every chunk end of an utterance, until a second after it. Its words' times must be known."""
    until = len(said.samples) + round(AFTER_S * SAMPLE_RATE)
    frames = until // FRAME_SAMPLES
    samples = np.zeros(frames * FRAME_SAMPLES, np.float32)
    samples[: len(said.samples)] = to_float(said.samples)
    first = first_block(block)
    blocks = block_ends(frames, block, first)
    mel = causal_log_mel(raw_log_mel(samples, network.dims.n_mels, padding=HOP_LENGTH), blocks)
    place = network.encoder.conv1.weight.device
    limits = torch.tensor([min(end, frames) for end in blocks], device=place)
    prefix = tokenizer.sot_sequence(language, timestamps=False)
    with torch.no_grad():
        encoded = encode(network, torch.from_numpy(mel)[None].to(place), block, first)
        rows = greedy(network, encoded, limits, prefix, tokenizer.eot)
    words = said.text.split()
    shown = []
    for limit, row in zip(limits.tolist(), rows, strict=True):
        over = [word for word, (_, end) in zip(words, said.words or (), strict=True) if end <= limit * FRAME_SAMPLES]
        shown.append(Shown(tokenizer.decode(row).strip(), tuple(over)))
    return shown


def greedy(network: Whisper, encoded: Tensor, limits: Tensor, prefix: Sequence[int], eot: int) -> list[list[int]]:
    """The likeliest next tokens after `prefix`, until the end, from the first `limits` [p] of frames [1, n, width].

    All limits at once and without a cache; a row that has ended stays as it is. Only text and its end are written.
    """
    longest = int(int(limits.max()) / FRAMES_PER_SECOND * _PER_SECOND) + _MORE
    rows: list[list[int]] = [[] for _ in limits]
    open_ = list(range(len(rows)))
    for length in range(min(longest, network.dims.n_text_ctx - len(prefix))):
        if not open_:
            break
        tokens = torch.tensor([[*prefix, *rows[row]] for row in open_], device=encoded.device)
        bias, first = heard_until(limits[open_], encoded.shape[1]), torch.zeros_like(limits[open_])
        hidden, _ = network.decoder(tokens, encoded, bias=bias, rows=first)
        scores = functional.linear(hidden[:, -1], network.decoder.embed_tokens.weight[: eot + 1])
        best = scores.argmax(-1).tolist()
        for row, token in zip(open_, best, strict=True):
            if token != eot:
                rows[row].append(token)
        open_ = [row for row in open_ if len(rows[row]) > length]
    return rows


def arwer(shown: Sequence[Shown]) -> Counts:
    """Errors at all chunk ends, added up; their rate is the ARWER."""
    total = Counts()
    for moment in shown:
        total += align(moment.reference, moment.text.split()).words
    return total
