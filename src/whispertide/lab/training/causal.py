"""Training the causal adapter of any checkpoint: low-rank changes of its attention, under a block-causal mask.

An update is a batch of windows, each asked at several moments: what should have been said by then, and no more. All
moments of a window share one pass of the encoder and one step of the optimiser (`order` "together"); the paper takes a
pass and a step for each. After each epoch the loss on windows that are not trained on is measured; of the best epochs
that one is kept whose ARWER is lowest. A batch is a function of the seed and its number, so a run that was stopped and
resumed is, on one machine's CPU, the run that was not. (Krichli, Raj, Keshet 2025: WhisperRT; ALGORITHMS E.)

Needs torch and peft. Knows nothing of command lines.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.causal import CausalAdapter
from whispertide.errors import CheckpointError, CorpusError, OptionError, OutputError
from whispertide.lab.speech.text import is_reserved
from whispertide.lab.training.causal_batches import (
    CausalBatch,
    CausalBatches,
    CausalBatchOptions,
    first_block,
)
from whispertide.lab.training.causal_decoding import arwer, shown_at_ends
from whispertide.lab.training.causal_network import adapt, adapters, causal_loss
from whispertide.lab.training.loop import STATE, Figures, append_log, read_state, write_state
from whispertide.lab.training.network import load_network
from whispertide.lab.training.shards import Shards, Utterance, read_licences
from whispertide.lab.training.small_run import HELD_BACK, clean, note_options

_SMALLEST = 40  # utterances
_WARM_UP = 0.05  # of the run
_TESTED_BLOCK = 15  # frames, of an adapter for any

Order = Literal["together", "ordered", "random"]
Progress = Callable[[int, Figures], None]


@dataclass(frozen=True, slots=True)
class CausalOptions:
    """How a causal adapter is trained.

    rank         of the changes
    steps        updates in all, `epoch` of them in an epoch
    minutes      the run ends after so many, if that is earlier; None: no limit
    rate         of AdamW, at its highest; it falls to nothing along half a cosine
    order        the sample points of a window: in one step, or in one step each, by time or by the dice
    best         so many epochs are kept, by the loss on `held_out` batches, to choose from by ARWER
    sentences    that ARWER is measured on
    content_hash of the checkpoint, so that a run does not go on with another
    """

    rank: int = 32
    steps: int = 2000
    minutes: float | None = None
    epoch: int = 50
    rate: float = 1e-3
    order: Order = "together"
    best: int = 3
    held_out: int = 8
    sentences: int = 12
    seed: int = 0
    content_hash: str = ""
    batch: CausalBatchOptions = field(default_factory=CausalBatchOptions)

    def __post_init__(self) -> None:
        counts = (self.rank, self.steps, self.epoch, self.best, self.held_out, self.sentences)
        if min(counts) < 1 or self.rate <= 0 or (self.minutes is not None and self.minutes <= 0):
            raise OptionError(
                "expected rank, steps, epoch, best, held_out and sentences from 1, and rate and minutes above 0; got "
                f"{', '.join(map(str, counts))}, {self.rate:g} and {self.minutes}"
            )


@dataclass(slots=True)
class Epoch:
    """The adapter's parameters as they were after an epoch, and their loss per token on what is not trained on."""

    step: int
    loss: float
    parameters: list[Tensor]


class CausalTrainer:
    """The adapter of a frozen checkpoint, its optimiser, and the best epochs so far. `folder` is the run."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        batches: CausalBatches,
        held_out: Sequence[CausalBatch],
        sentences: Sequence[Utterance],
        options: CausalOptions,
        folder: Path,
        device: str = "cpu",
        data: Mapping[str, Any] | None = None,
    ) -> None:
        self.data = dict(data or {})
        self.options, self.folder, self.device = options, folder, torch.device(device)
        self.checkpoint, self.batches, self._sentences = checkpoint, batches, sentences
        self.network = load_network(checkpoint).eval()
        adapt(self.network, options.rank, options.seed)
        self.network.to(self.device)
        self._held_out = [batch.to(self.device) for batch in held_out]
        self.parameters = [matrix for pair in adapters(self.network).values() for matrix in pair]
        self.optimiser = torch.optim.AdamW(self.parameters, lr=options.rate, weight_decay=0.01, eps=1e-6)
        self.step, self.trained_s, self.heard_s = 0, 0.0, 0.0
        self.best: list[Epoch] = []

    # --- an update ----------------------------------------------------------------------------------------------------

    @property
    def gone(self) -> float:
        """How much of the run is over, 0 to 1: of its updates or of its time."""
        share = self.step / self.options.steps
        return share if self.options.minutes is None else max(share, self.trained_s / (60 * self.options.minutes))

    def rate(self) -> float:
        """Of the update to come."""
        gone = min(1.0, self.gone)
        rising, falling = min(1.0, (gone + 1e-3) / _WARM_UP), 0.5 * (1 + math.cos(math.pi * gone))
        return self.options.rate * rising * falling

    def update(self, batch: CausalBatch) -> float:
        """One update; returns the loss per token. A step whose gradient is no number changes nothing."""
        self.optimiser.param_groups[0]["lr"] = self.rate()
        total, count = 0.0, batch.count
        for part in in_order(batch, self.options.order):
            self.optimiser.zero_grad(set_to_none=True)
            loss = causal_loss(self.network, part.to(self.device))
            (loss / max(1, part.count)).backward()
            if float(torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)) < math.inf:
                self.optimiser.step()
            total += float(loss.detach())
        self.step += 1
        self.heard_s += batch.seconds
        return total / max(1, count)

    def run(self, progress: Progress, workers: int = 0, stop: Callable[[], bool] = lambda: False) -> bool:
        """Train to the end; `progress(step, figures)` after every update, with more figures after an epoch.

        `stop` is asked after every update; where it says so the run is saved and ends early. Returns whether it ended
        by itself. Raises `OutputError` where the folder cannot be written.
        """
        options, made = self.options, self.batches.after(self.step, self.options.steps, workers)
        losses, before, began = list[float](), self.trained_s, time.monotonic()
        while self.gone < 1:
            losses.append(self.update(next(made)))
            self.trained_s = before + time.monotonic() - began
            figures = {"loss": losses[-1]}
            if self.step % options.epoch == 0 or self.gone >= 1:
                held_out = self._end_epoch()
                figures = {"epoch_loss": float(np.mean(losses)), "held_out": held_out, "rate": self.rate()}
                with self._writing():
                    append_log(self.folder, self.step, figures)
                losses = []
                self.save()
            progress(self.step, figures)
            if self.gone < 1 and stop():
                self.save()
                return False
        return True

    # --- which is kept ------------------------------------------------------------------------------------------------

    def held_out_loss(self) -> float:
        """Per token at the sample points of windows that are not trained on."""
        with torch.no_grad():
            total = sum(float(causal_loss(self.network, batch)) for batch in self._held_out)
        return total / sum(batch.count for batch in self._held_out)

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

    def _end_epoch(self) -> float:
        loss = self.held_out_loss()
        self.best.append(Epoch(self.step, loss, [matrix.detach().clone() for matrix in self.parameters]))
        self.best = sorted(self.best, key=lambda epoch: (epoch.loss, epoch.step))[: self.options.best]
        return loss

    def _take(self, parameters: Sequence[Tensor]) -> None:
        with torch.no_grad():
            for matrix, values in zip(self.parameters, parameters, strict=True):
                matrix.copy_(values)

    def result(self) -> CausalAdapter:
        """The one of the best epochs whose ARWER is lowest; what it and the checkpoint itself measure is reported."""
        tried = []
        for epoch in self.best:
            self._take(epoch.parameters)
            tried.append((self.arwer(), epoch.loss, epoch.step))
        self._take([torch.zeros_like(matrix) for matrix in self.parameters])
        base = (self.arwer(), self.held_out_loss())
        (lowest, loss, step), kept = min(zip(tried, self.best, strict=True), key=lambda pair: pair[0])
        self._take(kept.parameters)
        options = self.options
        settings = {name: value for name, value in asdict(options).items() if name != "content_hash"}
        report = {
            "arwer": round(lowest, 4),
            "arwer_without": round(base[0], 4),
            "held_out": round(loss, 4),
            "held_out_without": round(base[1], 4),
            "kept": step,
            "updates": self.step,
            "hours_heard": round(self.heard_s / 3600, 2),
            "data": self.data,
            "options": settings,
        }
        matrices = {
            name: (a.detach().cpu().numpy(), b.detach().cpu().numpy())
            for name, (a, b) in adapters(self.network).items()
        }
        block = options.batch.block
        return CausalAdapter(options.rank, block, first_block(block), matrices, options.content_hash, report)

    # --- the state ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"expected a folder that can be written; got {error}") from error

    def save(self) -> None:
        """Write `state.pt`, whole or not at all. Raises `OutputError`."""
        content = {
            "step": self.step,
            "trained_s": self.trained_s,
            "heard_s": self.heard_s,
            "parameters": [matrix.detach() for matrix in self.parameters],
            "optimiser": self.optimiser.state_dict(),
            "best": [{"step": epoch.step, "loss": epoch.loss, "parameters": epoch.parameters} for epoch in self.best],
        }
        with self._writing():
            write_state(self.folder, content)

    def load(self) -> None:
        """Go on where `state.pt` left off. Raises `CheckpointError` where it is damaged."""
        content = read_state(self.folder, self.device)
        try:
            self._take(content["parameters"])
            self.optimiser.load_state_dict(content["optimiser"])
            self.best = [Epoch(**epoch) for epoch in content["best"]]
            self.step, self.trained_s, self.heard_s = content["step"], content["trained_s"], content["heard_s"]
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self.folder / STATE} is damaged ({error}); remove {self.folder} and start the run again"
            ) from error


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


def described(speech: Shards) -> dict[str, Any]:
    """How much speech this is, and under which licences its folders are."""
    licences = Counter[str]()
    for folder in dict.fromkeys(place.file.parent for place in speech.places):
        licences.update(dict(read_licences(folder)))
    return {"utterances": len(speech), "hours": round(speech.seconds / 3600, 2), "licences": dict(licences)}


def open_trainer(
    checkpoint: Checkpoint, speech: Shards, options: CausalOptions, folder: Path, device: str = "cpu"
) -> CausalTrainer:
    """A run in `folder`: a new one, or the one there is, which goes on.

    Sentences that are reserved for evaluation are left out. Raises `CorpusError` where there is too little speech or
    none with word times, `OptionError` where the run that is there has other options, `OutputError` where the folder
    cannot be written.
    """
    usable = speech.having(lambda place: not is_reserved(place.entry["text"]))
    timed = usable.having(lambda place: place.entry.get("words") is not None)
    if len(timed) < _SMALLEST:
        raise CorpusError(
            f"expected at least {_SMALLEST} utterances with word times that are not reserved for tests; got "
            f"{len(timed)} of {len(speech)}: a causal model learns from word times what it may say when"
        )
    held_back = Shards(usable.places[::HELD_BACK])
    trained = Shards(tuple(place for number, place in enumerate(usable.places) if number % HELD_BACK))
    note_options(options, folder)
    tokenizer, n_mels = checkpoint.tokenizer, checkpoint.dims.n_mels
    batches = CausalBatches(trained, tokenizer, options.batch, n_mels, options.seed)
    quiet = replace(options.batch, windows=replace(options.batch.windows, augmentation=clean()))
    kept = CausalBatches(held_back, tokenizer, quiet, n_mels, options.seed + 1)
    tested = [kept[number] for number in range(options.held_out)]
    exact = held_back.having(lambda place: place.entry.get("words") is not None and place.entry.get("exact", True))
    every = max(1, len(exact) // options.sentences)
    sentences = [exact[place] for place in range(0, len(exact), every)][: options.sentences]
    trainer = CausalTrainer(checkpoint, batches, tested, sentences, options, folder, device, described(trained))
    if (folder / STATE).exists():
        trainer.load()
    return trainer
