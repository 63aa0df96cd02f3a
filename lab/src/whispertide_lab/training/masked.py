"""Teaching an encoder to hear in blocks: low-rank changes of its attention, by distillation from itself (WhisperKit).

The student is the encoder under a mask, the teacher the same encoder without, over windows padded to 30 s. The loss is
the distance of their outputs and of the texts that the decoder, which stays as it is, makes of them: the paper does not
say which it used. The epoch with the lowest loss on held-out windows is kept. (WhisperKit, 2.1.1; ALGORITHMS F.)

Needs torch and peft. Knows nothing of command lines.
"""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.mask import Mask
from whispertide.checkpoint.masked import GROUPS, MaskedAdapter
from whispertide_lab.training.adapter_run import AdapterOptions, AdapterTrainer
from whispertide_lab.training.epochs import Lessons
from whispertide_lab.training.lessons import speech_lessons, unreserved
from whispertide_lab.training.masked_batches import MaskedBatch, MaskedBatches, MaskedBatchOptions
from whispertide_lab.training.masked_network import distances
from whispertide_lab.training.network import load_network
from whispertide_lab.training.shards import Shards
from whispertide_lab.training.small_run import note_options


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedOptions(AdapterOptions):
    """How an adapter for a mask is trained.

    mask     by WhisperKit's name
    outputs  the weight of the encoder's outputs in the loss; that of the text is 1
    """

    mask: str
    rank: int = 16
    epoch: int = 20
    held_out: int = 4
    outputs: float = 1.0
    batch: MaskedBatchOptions = field(default_factory=MaskedBatchOptions)

    def __post_init__(self) -> None:
        AdapterOptions.__post_init__(self)
        Mask.parse(self.mask)


class MaskedTrainer(AdapterTrainer[MaskedBatch]):
    """Learns to give under the mask what the encoder gives without."""

    groups = GROUPS

    def __init__(
        self,
        checkpoint: Checkpoint,
        lessons: Lessons[MaskedBatch],
        options: MaskedOptions,
        folder: Path,
        device: str,
    ) -> None:
        super().__init__(checkpoint, lessons, options, folder, device)
        self.options, self.mask = options, Mask.parse(options.mask)
        self.teacher = load_network(checkpoint).eval().requires_grad_(False).to(self.device)

    def loss(self, batch: MaskedBatch) -> Tensor:
        """Both distances; that of the encoder's outputs counts for each token."""
        error, divergence = distances(self.network, self.teacher, batch, self.mask)
        return divergence + self.options.outputs * batch.count * error

    def measured(self) -> dict[str, float]:
        """Both distances on the held-out windows: of the outputs in the mean, of the text per token."""
        with torch.no_grad():
            pairs = [distances(self.network, self.teacher, batch, self.mask) for batch in self._held_out]
        tokens = sum(batch.count for batch in self._held_out)
        outputs = sum(float(error) for error, _ in pairs) / len(pairs)
        return {"outputs": round(outputs, 4), "text": round(sum(float(text) for _, text in pairs) / tokens, 4)}

    def result(self) -> MaskedAdapter:
        """The best epoch; what it and the mask without training measure is reported."""
        kept = self.best[0]
        self.take_nothing()
        base, without = self.held_out_loss(), self.measured()
        self.take(kept.parameters)
        measured = {
            "held_out": round(kept.loss, 4),
            "held_out_without": round(base, 4),
            "distances": self.measured(),
            "distances_without": without,
            "kept": kept.step,
        }
        options = self.options
        return MaskedAdapter(options.rank, self.matrices, options.content_hash, self.report(measured), mask=self.mask)


def open_trainer(
    checkpoint: Checkpoint, speech: Shards, options: MaskedOptions, folder: Path, device: str = "cpu"
) -> MaskedTrainer:
    """A run in `folder`: a new one, or the one there is, which goes on.

    Sentences that are reserved for evaluation are left out. Raises `CorpusError` where there is too little speech,
    `OptionError` where the run that is there has other options or other speech, `OutputError` where the folder cannot
    be written.
    """
    usable = unreserved(speech)
    note_options(options, folder, speech)
    tokenizer, n_mels = checkpoint.tokenizer, checkpoint.dims.n_mels
    learned = speech_lessons(MaskedBatches, usable, tokenizer, n_mels, options.batch, options)
    return MaskedTrainer(checkpoint, learned, options, folder, device).resume()
