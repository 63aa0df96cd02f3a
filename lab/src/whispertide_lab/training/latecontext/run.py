"""How such a network is trained: CTC and attention together, in epochs, the mean of the best.

The run's folder has `options.json`, the vocabulary, `state.pt` and `log.jsonl`. Knows nothing of command lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from whispertide.errors import CorpusError, OptionError
from whispertide.understand.checkpoint import LateCheckpoint, LateDims, LateVocabulary
from whispertide.understand.intent_words import IntentWords, plain
from whispertide_lab.training.epochs import EpochOptions, EpochTrainer, Lessons
from whispertide_lab.training.latecontext.batches import LateBatch, LateBatches, LateBatchOptions
from whispertide_lab.training.latecontext.branchformer import BranchformerLayer
from whispertide_lab.training.latecontext.folder import learn_vocabulary
from whispertide_lab.training.latecontext.intent_words import learn_intents
from whispertide_lab.training.latecontext.network import (
    LateNetwork,
    load_tensors,
    parameter_count,
    tensors_of,
)
from whispertide_lab.training.latecontext.transducer import Transducer
from whispertide_lab.training.lessons import SMALLEST, clean, divided, lessons
from whispertide_lab.training.shards import ShardEntry, Shards
from whispertide_lab.training.small_run import note_options

_LONGEST_S = 10.0  # of speech without intents; commands are as long as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class LateOptions(EpochOptions):
    """How a network is trained.

    dims       its shape; `n_vocab` is what is asked for, a small corpus may have fewer
    ctc        its share of the loss; the rest is the decoder's
    aligned    for this share of the run, frames learn what is said in them, from the times of the words, in place of
               CTC. CTC alone needs thousands of updates before it says anything but blanks
    smoothing  of the decoder's labels
    content_hash   of the network that it goes on with; empty: of none
    """

    dims: LateDims = field(default_factory=LateDims)
    steps: int = 20_000
    epoch: int = 200
    rate: float = 2e-3
    best: int = 5
    ctc: float = 0.3
    aligned: float = 0.3
    smoothing: float = 0.1
    dropout: float = 0.1
    batch: LateBatchOptions = field(default_factory=LateBatchOptions)

    def __post_init__(self) -> None:
        EpochOptions.__post_init__(self)
        if not (0 <= self.ctc <= 1 and 0 <= self.aligned <= 1 and 0 <= self.smoothing < 1 and 0 <= self.dropout < 1):
            raise OptionError(
                "expected ctc and aligned from 0 to 1, smoothing and dropout from 0 to below 1; got "
                f"{self.ctc:g}, {self.aligned:g}, {self.smoothing:g} and {self.dropout:g}"
            )


class LateTrainer(EpochTrainer[LateBatch]):
    """A network that learns."""

    def __init__(
        self,
        vocabulary: LateVocabulary,
        lessons: Lessons[LateBatch],
        commands: Shards,
        options: LateOptions,
        folder: Path,
        device: str,
    ) -> None:
        self.options, self.vocabulary, self._commands = options, vocabulary, commands
        self.dims = replace(options.dims, n_vocab=vocabulary.size)
        torch.manual_seed(options.seed)
        self.network = make_network(self.dims, options.dropout).to(device).eval()
        super().__init__(list(self.network.parameters()), lessons, options, folder, device)

    def update(self, batch: LateBatch) -> float:
        """One update, with dropout; what is dropped is a function of its number."""
        torch.manual_seed(hash((self.options.seed, self.step)) % 2**63)
        self.network.train()
        loss = super().update(batch)
        self.network.eval()
        return loss

    def loss(self, batch: LateBatch) -> Tensor:
        """Of the frames and of the decoder, summed over the tokens that count."""
        scores, said = self.network(batch.mel, batch.lengths, batch.tokens)
        text = self.network.text_loss(said, batch, self.options.smoothing if self.network.training else 0.0)
        aligning = self.network.training and self.gone < self.options.aligned
        frames = self._aligned(scores, batch) if aligning else self._ctc(scores, batch)
        return self.options.ctc * frames + (1 - self.options.ctc) * text

    def _aligned(self, scores: Tensor, batch: LateBatch) -> Tensor:
        """The mean loss of a frame that learns what is said in it, times the tokens that count."""
        return functional.nll_loss(scores.transpose(1, 2), batch.spoken, ignore_index=-1) * batch.count

    def _ctc(self, scores: Tensor, batch: LateBatch) -> Tensor:
        alignments: Tensor = functional.ctc_loss(
            scores.transpose(0, 1),
            batch.targets.clamp(min=0),
            batch.lengths,
            (batch.targets >= 0).sum(1) - 1,  # CTC has no end
            blank=self.dims.n_vocab,
            reduction="sum",
            zero_infinity=True,
        )
        return alignments

    def branch_weights(self) -> list[float]:
        """How much attention counts in each layer of a Branchformer, 0 to 1, in the mean over the held-out batches.

        Empty for another network. (Pilot inference, section 4: layers above a threshold keep their attention.)
        """
        layers = [layer for layer in self.network.encoder.attending if isinstance(layer, BranchformerLayer)]
        sums = torch.zeros(len(layers))
        with torch.no_grad():
            for batch in self._held_out:
                sums += torch.tensor(_shares(self.network, layers, batch))
        return [round(float(total) / len(self._held_out), 4) for total in sums]

    def result(self) -> LateCheckpoint:
        """The mean of the best epochs: of as many, the best first, as have the least loss on what is held out. An early
        one of a short run would harm it.
        """
        averaged, loss = self.take_mean(range(1, len(self.best) + 1))
        measured = {
            "held_out": round(loss, 4),
            "averaged": averaged,
            "held_out_epochs": [round(epoch.loss, 4) for epoch in self.best],
            "parameters": parameter_count(self.parameters),
            "attention": self.branch_weights(),
        }
        words = intents_of(self._commands, self.vocabulary, self.options.seed)
        return LateCheckpoint(self.dims, tensors_of(self.network), self.vocabulary, self.report(measured), words)


def intents_of(commands: Shards, vocabulary: LateVocabulary, seed: int = 0) -> IntentWords:
    """Which intent a text has, learned from the texts of these commands; their intents must be in the vocabulary."""
    intents = [vocabulary.intents.index(place.entry["intent"]) for place in commands.places]
    return learn_intents([plain(text) for text in commands.texts], intents, len(vocabulary.intents), seed)


def make_network(dims: LateDims, dropout: float) -> LateNetwork | Transducer:
    """An untrained one of its kind."""
    return Transducer(dims, dropout) if dims.kind == "rnnt" else LateNetwork(dims, dropout)


def _shares(network: LateNetwork | Transducer, layers: Sequence[BranchformerLayer], batch: LateBatch) -> list[float]:
    """The weight of attention in each of the layers, in the mean over a batch."""
    seen: list[float] = []

    def note(layer: BranchformerLayer, inputs: tuple[Tensor, Tensor | None]) -> None:
        frames, mask = inputs
        seen.append(float(layer.weights(layer.branches(frames, mask), mask)[:, 0].mean()))

    hooks = [layer.register_forward_pre_hook(note) for layer in layers]
    network.encoder(batch.mel, batch.lengths)
    for hook in hooks:
        hook.remove()
    return seen


def _has_intent(place: ShardEntry) -> bool:
    return place.entry.get("intent") is not None


def open_trainer(
    speech: Shards, options: LateOptions, folder: Path, device: str = "cpu", start: LateCheckpoint | None = None
) -> LateTrainer:
    """A run in `folder`: a new one, or the one there is, which goes on. From the weights and in the words of `start`.

    Speech without intents, such as recordings of people, is learned from as well, if it is short; what is held back are
    commands. Raises `CorpusError` where there are too few of these, `OptionError` where the run that is there has other
    options or other speech, `OutputError` where the folder cannot be written.
    """
    known = speech.having(_has_intent)
    others = speech.having(lambda place: not _has_intent(place) and place.seconds <= _LONGEST_S)
    if len(known) < SMALLEST:
        raise CorpusError(
            f"expected at least {SMALLEST} utterances with intents; got {len(known)} of {len(speech)}: "
            f"give `whispertide train commands` a list of at least {SMALLEST} sentences"
        )
    commands, held_back = divided(known)
    trained = Shards((*commands.places, *others.places))
    if start is not None:
        options = replace(options, content_hash=start.content_hash)
    note_options(options, folder, speech)
    intents = [place.entry["intent"] for place in commands.places]
    if start is None:
        vocabulary = learn_vocabulary(sorted(set(map(plain, trained.texts))), intents, options.dims.n_vocab)
    else:
        vocabulary = start.vocabulary
        _check_intents(intents, vocabulary)
    n_mels, batch = options.dims.n_mels, replace(options.batch, intent_last=options.dims.kind == "rnnt")
    batches = LateBatches(trained, vocabulary, batch, n_mels, options.seed)
    quiet = replace(batch, augmentation=clean(), mask_time=0, mask_mels=0)
    kept = LateBatches(held_back, vocabulary, quiet, n_mels, options.seed + 1)
    learned = lessons(trained, batches, kept, options)
    trainer = LateTrainer(vocabulary, learned, commands, options, folder, device)
    if start is not None:
        load_tensors(trainer.network, start.tensors)
    return trainer.resume()


def _check_intents(wanted: Sequence[str], vocabulary: LateVocabulary) -> None:
    if unknown := sorted({intent for intent in wanted if vocabulary.intent(intent) is None}):
        raise CorpusError(
            f"expected commands with intents of the network; {', '.join(unknown[:5])} "
            f"{'is' if len(unknown) == 1 else 'are'} not among its {len(vocabulary.intents)}. Train a new one"
        )
