"""Training the causal adapter of any checkpoint: low-rank changes of its attention, under a block-causal mask.

An update is a batch of windows, each asked at several moments: what should have been said by then, and no more. All
moments of a window share one pass of the encoder and one step of the optimiser (`order` "together"); the paper takes a
pass and a step for each. After each epoch the loss on windows that are not trained on is measured; of the best epochs
that one is kept whose ARWER is lowest. Updates, epochs and resuming are those of `adapter_run`. (Krichli, Raj, Keshet
2025: WhisperRT; ALGORITHMS E.)

Needs torch and peft. Knows nothing of command lines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from torch import Tensor

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.causal import CausalAdapter
from whispertide.errors import CorpusError, OptionError
from whispertide_lab.training.adapter_run import AdapterOptions, AdapterTrainer
from whispertide_lab.training.causal_batches import (
    CausalBatch,
    CausalBatches,
    CausalBatchOptions,
    first_block,
)
from whispertide_lab.training.causal_decoding import arwer, shown_at_ends
from whispertide_lab.training.causal_network import causal_loss
from whispertide_lab.training.epochs import Lessons
from whispertide_lab.training.lessons import SMALLEST, divided, speech_lessons, unreserved
from whispertide_lab.training.shards import Shards, Utterance
from whispertide_lab.training.small_run import note_options

_TESTED_BLOCK = 15  # frames, of an adapter for any
# Sentences by which the best epoch is chosen are no longer, where there are such. Each is decoded anew at all its chunk
# ends, so one of twice the length takes some eight times as long.
_JUDGED_S = 8.0

Order = Literal["together", "ordered", "random"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalOptions(AdapterOptions):
    """How a causal adapter is trained; of the `best` epochs the one with the lowest ARWER is kept.

    order      the sample points of a window: in one step, or in one step each, by time or by the dice
    sentences  that ARWER is measured on
    """

    # The last three differ in nothing that ARWER could tell. Each one more takes as long as a few updates.
    best: int = 8
    order: Order = "together"
    sentences: int = 12
    batch: CausalBatchOptions = field(default_factory=CausalBatchOptions)

    def __post_init__(self) -> None:
        AdapterOptions.__post_init__(self)
        if self.sentences < 1:
            raise OptionError(f"expected sentences from 1; got {self.sentences}")


class CausalTrainer(AdapterTrainer[CausalBatch]):
    """Learns what should have been said by each moment of a window."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        lessons: Lessons[CausalBatch],
        sentences: Sequence[Utterance],
        options: CausalOptions,
        folder: Path,
        device: str,
    ) -> None:
        super().__init__(checkpoint, lessons, options, folder, device)
        self.options, self._sentences = options, sentences

    def loss(self, batch: CausalBatch) -> Tensor:
        """Cross-entropy at the sample points."""
        return causal_loss(self.network, batch)

    def parts(self, batch: CausalBatch) -> Iterator[CausalBatch]:
        """The sample points in the order that was asked for."""
        return in_order(batch, self.options.order)

    def arwer(self) -> float:
        """Of sentences that are not trained on, at all chunk ends (`causal_decoding`)."""
        block = self.options.batch.block or _TESTED_BLOCK
        tokenizer, language = self.checkpoint.tokenizer, self.options.batch.windows.language
        shown = [
            moment
            for said in self._sentences
            for moment in shown_at_ends(self.network, tokenizer, said, block, language)
        ]
        return arwer(shown).rate or 0.0

    def result(self) -> CausalAdapter:
        """The one of the best epochs whose ARWER is lowest; what it and the checkpoint itself measure is reported."""
        tried = []
        for epoch in self.best:
            self.take(epoch.parameters)
            tried.append((self.arwer(), epoch.loss, epoch.step))
        self.take_nothing()
        base = (self.arwer(), self.held_out_loss())
        (lowest, loss, step), kept = min(zip(tried, self.best, strict=True), key=lambda pair: pair[0])
        self.take(kept.parameters)
        report = self.report(
            {
                "arwer": round(lowest, 4),
                "arwer_without": round(base[0], 4),
                "held_out": round(loss, 4),
                "held_out_without": round(base[1], 4),
                "kept": step,
                "word_times": "exact" if all(said.exact for said in self._sentences) else "by the teacher's attention",
                "tried": {str(at): round(rate, 4) for rate, _, at in tried},
            }
        )
        options, block = self.options, self.options.batch.block
        return CausalAdapter(
            options.rank, self.matrices, options.content_hash, report, block=block, first=first_block(block)
        )


def in_order(batch: CausalBatch, order: Order) -> Iterator[CausalBatch]:
    """The batch as a whole, or one sample point of each window after another: by time, or by the dice."""
    if order == "together":
        yield batch
        return
    turns = batch.turns.clone()
    if order == "ordered":
        for row in range(len(batch.mel)):
            mine = batch.rows == row
            turns[mine] = batch.limits[mine].argsort().argsort()
    for turn in range(int(turns.max()) + 1):
        yield batch.points(turns == turn)


def open_trainer(
    checkpoint: Checkpoint, speech: Shards, options: CausalOptions, folder: Path, device: str = "cpu"
) -> CausalTrainer:
    """A run in `folder`: a new one, or the one there is, which goes on.

    Sentences that are reserved for evaluation are left out. ARWER is measured by exact word times, where any of what is
    held back has them. Raises `CorpusError` where there is too little speech or none with word times, `OptionError`
    where the run that is there has other options or other speech, `OutputError` where the folder cannot be written.
    """
    usable = unreserved(speech, 0)
    timed = usable.having(lambda place: place.entry.get("words") is not None)
    if len(timed) < SMALLEST:
        raise CorpusError(
            f"expected at least {SMALLEST} utterances with word times that are not reserved for tests; got "
            f"{len(timed)} of {len(speech)}: a causal model learns from word times when it may write a word "
            "(`teacher_times` makes them)"
        )
    note_options(options, folder, speech)
    tokenizer, n_mels = checkpoint.tokenizer, checkpoint.dims.n_mels
    learned = speech_lessons(CausalBatches, usable, tokenizer, n_mels, options.batch, options)
    known = divided(usable)[1].having(lambda place: place.entry.get("words") is not None)
    exact = known.having(lambda place: place.entry.get("exact", True))
    judged = exact or known
    judged = judged.having(lambda place: place.seconds <= _JUDGED_S) or judged
    if not judged:
        raise CorpusError(
            "expected utterances with word times among those that are held back, by which the best epoch is chosen; "
            "there are none: give more speech"
        )
    every = max(1, len(judged) // options.sentences)
    sentences = [judged[place] for place in range(0, len(judged), every)][: options.sentences]
    return CausalTrainer(checkpoint, learned, sentences, options, folder, device).resume()
