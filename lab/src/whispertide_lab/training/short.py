"""Teaching a checkpoint short windows: low-rank changes, by distillation from itself. No transcripts are needed.

The teacher is the checkpoint on a window padded to 30 s, as it was trained; the student the same weights, changed, on
the bare window. The student learns the teacher's text and its end (cross-entropy), and its whole distribution
(Kullback-Leibler); and on some windows that are padded, too, to stay what it was. Which changes are kept, windows of
speakers that are not trained on decide.

Needs torch and peft. Knows nothing of command lines.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from whispertide.atomic import write_text, writing
from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.low_rank import hash_matrices
from whispertide.checkpoint.short import GROUPS, ShortAdapter
from whispertide.errors import OptionError
from whispertide.model.whisper import WhisperModel
from whispertide.options import EngineOptions
from whispertide.streaming.framing import taught_framing
from whispertide_lab.training.adapter_run import AdapterOptions, AdapterTrainer
from whispertide_lab.training.device import quicker_precision
from whispertide_lab.training.epochs import Lessons
from whispertide_lab.training.lessons import described
from whispertide_lab.training.losses import departure
from whispertide_lab.training.network import Whisper, load_network
from whispertide_lab.training.shards import Shards
from whispertide_lab.training.short_batches import ShortBatch, ShortBatches, collated, in_order
from whispertide_lab.training.short_framing import encode_short
from whispertide_lab.training.short_lessons import Lesson, Teacher, teach
from whispertide_lab.training.short_speech import apart
from whispertide_lab.training.short_texts import compare
from whispertide_lab.training.short_windows import ShortWindowOptions
from whispertide_lab.training.small_run import note_options
from whispertide_lab.training.torch_engine import TorchEngine

REPORT = "report.json"
_BARE = 3  # one batch in so many is bare where others have merged padding

Advance = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortOptions(AdapterOptions):
    """How an adapter for short windows is trained; `held_out` counts windows.

    lessons   windows that the teacher answers
    batch     windows in an update
    text      the weight of the teacher's text in the loss; that of its distribution is 1
    again     the share of the windows that are heard padded, too, so that the checkpoint stays what it was
    merged    frames of merged padding after each window, but for every third batch, which is bare, so that the adapter
              serves bare windows, too; 0: all are bare
    language  of all speech; None: as its manifest says, or as the checkpoint guesses
    """

    rank: int = 16
    steps: int = 600
    epoch: int = 40
    rate: float = 3e-4
    held_out: int = 80
    lessons: int = 1600
    batch: int = 8
    text: float = 1.0
    again: float = 1 / 16
    merged: int = 16
    language: str | None = None
    windows: ShortWindowOptions = field(default_factory=ShortWindowOptions)

    def __post_init__(self) -> None:
        AdapterOptions.__post_init__(self)
        if min(self.lessons, self.batch) < 1 or self.text < 0 or not 0 <= self.again <= 1 or self.merged < 0:
            raise OptionError(
                "expected lessons and batch from 1, text and merged from 0 and again from 0 to 1; got "
                f"{self.lessons}, {self.batch}, {self.text:g}, {self.merged} and {self.again:g}"
            )


@dataclass(frozen=True, slots=True)
class Parts:
    """Of a loss, each summed over the tokens that count for it."""

    distance: Tensor
    text: Tensor
    changed: Tensor


def parts_of(network: Whisper, batch: ShortBatch, encoded: Tensor) -> Parts:
    """How far the student is from the teacher: in distribution and text on short windows, which it has `encoded`
    [b, frames, width]; on padded ones changed.
    """
    embedding = network.decoder.embed_tokens.weight
    known = functional.linear(batch.hidden.to(embedding.dtype), embedding)
    counted = batch.heard | (batch.targets >= 0)
    hidden, _ = network.decoder(batch.tokens, encoded)
    logits, targets, heard = functional.linear(hidden[counted], embedding), batch.targets[counted], batch.heard[counted]
    said = targets >= 0
    text = functional.cross_entropy(logits[said].float(), targets[said], reduction="sum")
    changed, twice = torch.zeros((), device=text.device), len(batch.padded)
    if twice:
        again, _ = network.decoder(batch.tokens[:twice], network.encoder(batch.padded))
        at = batch.heard[:twice]
        changed = departure(functional.linear(again[at], embedding), known[: int(at.sum())])
    return Parts(departure(logits[heard], known), text, changed)


class ShortTrainer(AdapterTrainer[ShortBatch]):
    """Learns to say of bare windows what the checkpoint says of padded ones."""

    groups = GROUPS

    def __init__(
        self,
        checkpoint: Checkpoint,
        lessons: Lessons[ShortBatch],
        tested: list[Lesson],
        options: ShortOptions,
        folder: Path,
        device: str,
    ) -> None:
        super().__init__(checkpoint, lessons, options, folder, device)
        self.options, self._tested = options, tested
        self._model = model_of(checkpoint, self.network)

    def loss(self, batch: ShortBatch) -> Tensor:
        """All parts."""
        learning_bare = torch.is_grad_enabled() and self.step % _BARE == 0
        parts = self._parts(batch, 0 if learning_bare else self.options.merged)
        return parts.distance + self.options.text * parts.text + parts.changed

    def _parts(self, batch: ShortBatch, merged: int) -> Parts:
        return parts_of(self.network, batch, encode_short(self.network, batch.bare, merged))

    def measured(self) -> dict[str, float]:
        """On held-out windows: distances per token, and how the texts differ from the teacher's."""
        with torch.no_grad(), self._precision():
            pairs = [(self._parts(batch, self.options.merged), batch) for batch in self._held_out]
        bare = sum(int(batch.heard.sum()) for _, batch in pairs)
        padded = sum(int(batch.heard[: len(batch.padded)].sum()) for _, batch in pairs)
        return {
            "distance": round(sum(float(parts.distance) for parts, _ in pairs) / max(1, bare), 4),
            "distance_padded": round(sum(float(parts.changed) for parts, _ in pairs) / max(1, padded), 4),
            **compare(self._model, self._tested, taught_framing(self.options.merged)),
        }

    def result(self) -> ShortAdapter:
        """The best epochs averaged, or the very best one where the average is no better."""
        self.take_nothing()
        without, before = self.held_out_loss(), self.measured()
        averaged, loss = self.take_mean((len(self.best), 1))
        measured = {
            "held_out": round(loss, 4),
            "held_out_without": round(without, 4),
            "texts": self.measured(),
            "texts_without": before,
            "kept": [epoch.step for epoch in self.best[:averaged]],
        }
        report = self.report(measured)
        with writing(self.folder):
            write_text(self.folder / REPORT, json.dumps(report, indent=2) + "\n")
        return ShortAdapter(self.options.rank, self.matrices, self.checkpoint.tensors_hash, report)


def model_of(checkpoint: Checkpoint, network: Whisper) -> WhisperModel:
    """A model computed by that very network."""
    return WhisperModel(checkpoint, TorchEngine(checkpoint, EngineOptions(provider="torch", precision="fp32"), network))


def open_trainer(
    checkpoint: Checkpoint,
    speech: Shards,
    options: ShortOptions,
    folder: Path,
    device: str = "cpu",
    *,
    start: ShortAdapter | None = None,
    advance: Advance = lambda *_: None,
    stop: Callable[[], bool] = lambda: False,
) -> ShortTrainer | None:
    """A run in `folder`: a new one, from `start` or from nothing, or the one there is, which goes on. The teacher's
    texts come first; None where `stop` ended that.

    Raises `CorpusError` where the speech is none, `OptionError` where `start` has another rank, or the run that is
    there other options, other speech or another start, `OutputError` where the folder cannot be written.
    """
    if start is not None and start.rank != options.rank:
        raise OptionError(f"expected an adapter of rank {options.rank} to go on from; got one of rank {start.rank}")
    note_options(options, folder, speech, "" if start is None else hash_matrices(start.matrices))
    trained, held = apart(speech, options.seed)
    network = load_network(checkpoint).eval().requires_grad_(False).to(device)
    kept: list[list[Lesson]] = []
    for part, count, name in ((held, options.held_out, "held-out"), (trained, options.lessons, "lessons")):
        teacher = Teacher(
            model_of(checkpoint, network), options.windows, options.language, partial(quicker_precision, device)
        )
        made = teach(teacher, part, count, options.seed + len(kept), folder / name, advance, stop)
        if made is None:
            return None
        kept.append(made)
    tested, lessons = kept
    n_mels, filler = checkpoint.dims.n_mels, checkpoint.tokenizer.eot
    batches = ShortBatches(lessons, options.batch, options.again, n_mels, filler, options.seed)
    held_out = [collated(part, twice, n_mels, filler) for part, twice in in_order(tested, options.batch)]
    data = {**described(trained), "speakers": len(trained.by_speaker()), "held_out_speakers": len(held.by_speaker())}
    trainer = ShortTrainer(checkpoint, Lessons(batches, held_out, data), tested, options, folder, device)
    if start is not None:
        trainer.begin_with(start.matrices)
    return trainer.resume()
