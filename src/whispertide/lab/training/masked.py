"""Teaching an encoder to hear in blocks: low-rank changes of its attention, by distillation from itself (WhisperKit).

The student is the encoder under a mask, the teacher the same encoder without, over windows padded to 30 s. The loss is
the distance of their outputs and of the texts that the decoder, which stays as it is, makes of them: the paper does not
say which it used. The epoch with the lowest loss on held-out windows is kept. (WhisperKit, 2.1.1; ALGORITHMS F.)

Needs torch and peft. Knows nothing of command lines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.mask import Mask
from whispertide.checkpoint.masked import GROUPS, MaskedAdapter
from whispertide.errors import CorpusError
from whispertide.lab.speech.text import is_reserved
from whispertide.lab.training.adapter_run import AdapterOptions, AdapterTrainer, described, divided
from whispertide.lab.training.masked_batches import MaskedBatch, MaskedBatches, MaskedBatchOptions
from whispertide.lab.training.masked_network import distances
from whispertide.lab.training.network import load_network
from whispertide.lab.training.shards import Shards
from whispertide.lab.training.small_run import clean, note_options

_SMALLEST = 40  # utterances


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
        batches: MaskedBatches,
        held_out: Sequence[MaskedBatch],
        options: MaskedOptions,
        folder: Path,
        device: str = "cpu",
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(checkpoint, batches, held_out, options, folder, device, data)
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
        return MaskedAdapter(options.rank, self.mask, self.matrices, options.content_hash, self.report(measured))


def open_trainer(
    checkpoint: Checkpoint, speech: Shards, options: MaskedOptions, folder: Path, device: str = "cpu"
) -> MaskedTrainer:
    """A run in `folder`: a new one, or the one there is, which goes on.

    Sentences that are reserved for evaluation are left out. Raises `CorpusError` where there is too little speech,
    `OptionError` where the run that is there has other options, `OutputError` where the folder cannot be written.
    """
    usable = speech.having(lambda place: not is_reserved(place.entry["text"]))
    if len(usable) < _SMALLEST:
        raise CorpusError(
            f"expected at least {_SMALLEST} utterances that are not reserved for tests; got {len(usable)} of "
            f"{len(speech)}: give more with --data"
        )
    trained, held_back = divided(usable)
    note_options(options, folder)
    tokenizer, n_mels = checkpoint.tokenizer, checkpoint.dims.n_mels
    batches = MaskedBatches(trained, tokenizer, options.batch, n_mels, options.seed)
    quiet = replace(options.batch, windows=replace(options.batch.windows, augmentation=clean()))
    kept = MaskedBatches(held_back, tokenizer, quiet, n_mels, options.seed + 1)
    tested = [kept[number] for number in range(options.held_out)]
    trainer = MaskedTrainer(checkpoint, batches, tested, options, folder, device, described(trained))
    trainer.resume()
    return trainer
