"""Training a hush word: gradient descent on a suffix of raw audio, through the log-mel and the frozen model.

The suffix is the only parameter (WhisperFlow, section 4.1, which derives it from "Muting Whisper", Raina et al. 2024:
AdamW, a random start). It is taught on windows as streams have them (`hush_windows`), with the token prefixes of
inference, by the cross-entropy of the next tokens, of which the end of text is one. After each epoch the loss on
windows that are not trained on is measured; the best few epochs are averaged. A batch is a function of the seed and its
number, so a run that was stopped and resumed is, on one machine's CPU, the run that was not.

Needs torch. Knows nothing of command lines.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Subset

from whispertide.checkpoint import Tokenizer
from whispertide.errors import CheckpointError, CorpusError, OptionError
from whispertide.lab.speech.text import is_reserved
from whispertide.lab.training.augment import Dice
from whispertide.lab.training.batches import quiet_worker
from whispertide.lab.training.hush_windows import HushWindowOptions, compose_hush, opening
from whispertide.lab.training.loop import STATE, Figures, append_log, read_state, write_state
from whispertide.lab.training.mel import followed
from whispertide.lab.training.network import Whisper
from whispertide.lab.training.shards import Shards, Utterance
from whispertide.lab.training.small_run import HELD_BACK, clean, note_options, writing
from whispertide.streaming.framing import LONGEST_HUSH_S, SHORTEST_HUSH_S
from whispertide.streaming.hush import HushWord
from whispertide.types import to_samples

_SMALLEST = 40  # utterances

Progress = Callable[[int, Figures], None]


@dataclass(frozen=True, slots=True)
class HushOptions:
    """How a hush word is trained.

    seconds      its length
    steps        updates in all, `epoch` of them in an epoch, each by `batch` windows
    rate         of AdamW, at its highest; it falls to a tenth along half a cosine
    start        standard deviation of the noise that it starts as
    best         so many of the best epochs are averaged, by the loss on `held_out` windows
    content_hash of the checkpoint, so that a run does not go on with another
    """

    seconds: float = 0.5
    steps: int = 1200
    epoch: int = 50
    batch: int = 8
    rate: float = 0.01
    start: float = 0.05
    best: int = 4
    held_out: int = 80
    seed: int = 0
    content_hash: str = ""
    windows: HushWindowOptions = field(default_factory=HushWindowOptions)

    def __post_init__(self) -> None:
        if not SHORTEST_HUSH_S <= self.seconds <= LONGEST_HUSH_S:
            raise OptionError(
                f"expected seconds from {SHORTEST_HUSH_S:g} to {LONGEST_HUSH_S:g} s; got {self.seconds:g}"
            )
        if min(self.steps, self.epoch, self.batch, self.best, self.held_out) < 1 or min(self.rate, self.start) <= 0:
            counts = (self.steps, self.epoch, self.batch, self.best, self.held_out)
            raise OptionError(
                "expected steps, epoch, batch, best and held_out from 1, and rate and start above 0; got "
                f"{', '.join(map(str, counts))}, {self.rate:g} and {self.start:g}"
            )


@dataclass(slots=True)
class HushWindow:
    """One window: what `mel.followed` takes, and tokens and targets [1, n] (-1: does not count)."""

    before: Tensor
    tail: Tensor
    peak: Tensor
    tokens: Tensor
    targets: Tensor

    @property
    def count(self) -> int:
        """How many tokens count."""
        return int((self.targets >= 0).sum())

    def to(self, device: torch.device) -> "HushWindow":
        """On that device."""
        parts = (self.before, self.tail, self.peak, self.tokens, self.targets)
        return HushWindow(*(part.to(device, non_blocking=True) for part in parts))


class HushBatches(Dataset[list[HushWindow]]):  # type: ignore[misc]
    """Batch `number` of a run: windows of any length, each of which runs by itself."""

    def __init__(
        self, speech: Sequence[Utterance], tokenizer: Tokenizer, options: HushOptions, n_mels: int, seed: int
    ) -> None:
        self._speech, self._tokenizer, self._options = speech, tokenizer, options
        self._n_mels, self._seed = n_mels, seed

    def __len__(self) -> int:
        return self._options.steps

    def __getitem__(self, number: int) -> list[HushWindow]:
        dice = np.random.RandomState([self._seed % 2**32, number])
        return [self._window(dice) for _ in range(self._options.batch)]

    def _window(self, dice: Dice) -> HushWindow:
        window = compose_hush(self._draw, self._tokenizer, dice, self._options.windows)
        arrays = (*opening(window.samples, self._n_mels), window.tokens, window.targets)
        return HushWindow(*(torch.from_numpy(np.array(values)[None]) for values in arrays))

    def _draw(self, dice: Dice) -> Utterance:
        return self._speech[int(dice.randint(len(self._speech)))]

    def after(self, done: int, workers: int) -> Iterator[list[HushWindow]]:
        """The batches from number `done` on, made by `workers` processes (0: here)."""
        rest = Subset(self, range(done, len(self)))
        yield from DataLoader(rest, batch_size=None, num_workers=workers, worker_init_fn=quiet_worker)


def hush_loss(network: Whisper, hush: Tensor, window: HushWindow) -> Tensor:
    """Cross-entropy of the next tokens with `hush` [n] after the window, summed over the tokens that count."""
    mel = followed(window.before, window.tail, hush, window.peak)
    encoded = network.encoder(mel.to(network.encoder.conv1.weight.dtype))
    hidden, _ = network.decoder(window.tokens, encoded)
    counted = window.targets >= 0
    logits = functional.linear(hidden[counted], network.decoder.embed_tokens.weight)
    loss: Tensor = functional.cross_entropy(logits, window.targets[counted], reduction="sum")
    return loss


@dataclass(slots=True)
class Epoch:
    """A hush word as it was after an epoch, and its loss per token on what is not trained on."""

    step: int
    loss: float
    samples: Tensor


class HushTrainer:
    """The hush word of a frozen network, its optimiser, and the best epochs so far. `folder` is the run."""

    def __init__(
        self,
        network: Whisper,
        batches: HushBatches,
        held_out: Sequence[HushWindow],
        options: HushOptions,
        folder: Path,
        device: str = "cpu",
    ) -> None:
        self.options, self.folder, self.device = options, folder, torch.device(device)
        self.network = network.to(self.device).eval().requires_grad_(False)
        self.batches, self._held_out = batches, [window.to(self.device) for window in held_out]
        dice = np.random.RandomState([options.seed % 2**32, 2**31])
        noise = options.start * dice.standard_normal(to_samples(options.seconds))
        self.hush = torch.tensor(noise, dtype=torch.float32, device=self.device, requires_grad=True)
        self.optimiser = torch.optim.AdamW([self.hush], lr=options.rate, weight_decay=0.0)
        self.step = 0
        self.best: list[Epoch] = []

    def rate(self) -> float:
        """Of the update to come."""
        gone = self.step / self.options.steps
        return self.options.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * gone)))

    def update(self, windows: Sequence[HushWindow]) -> float:
        """One update; returns the loss per token. Where the gradient is no number, nothing changes."""
        self.optimiser.zero_grad(set_to_none=True)
        self.optimiser.param_groups[0]["lr"] = self.rate()
        count, total = sum(window.count for window in windows), 0.0
        for window in windows:
            loss = hush_loss(self.network, self.hush, window.to(self.device)) / count
            loss.backward()
            total += float(loss.detach())
        if self.hush.grad is not None and bool(self.hush.grad.isfinite().all()):
            self.optimiser.step()
        self.step += 1
        return total

    def run(self, progress: Progress, workers: int = 0, stop: Callable[[], bool] = lambda: False) -> bool:
        """Train to the end; `progress(step, figures)` after every update, with more figures after an epoch.

        `stop` is asked after every update; where it says so the run is saved and ends early. Returns whether it ended
        by itself. Raises `OutputError` where the folder cannot be written.
        """
        options, made = self.options, self.batches.after(self.step, workers)
        began, losses = time.monotonic(), list[float]()
        while self.step < options.steps:
            losses.append(self.update(next(made)))
            figures = {"loss": losses[-1]}
            if self.step % options.epoch == 0 or self.step == options.steps:
                held_out = self._end_epoch()
                each = (time.monotonic() - began) / len(losses)
                figures = {"epoch_loss": float(np.mean(losses)), "held_out": held_out, "s_per_update": each}
                with writing():
                    append_log(self.folder, self.step, figures)
                began, losses = time.monotonic(), []
                self.save()
            progress(self.step, figures)
            if stop() and self.step < options.steps:
                self.save()
                return False
        return True

    def held_out_loss(self, hush: Tensor) -> float:
        """Per token, on what is not trained on."""
        with torch.no_grad():
            total = sum(float(hush_loss(self.network, hush, window)) for window in self._held_out)
        return total / sum(window.count for window in self._held_out)

    def _end_epoch(self) -> float:
        loss = self.held_out_loss(self.hush)
        self.best.append(Epoch(self.step, loss, self.hush.detach().clone()))
        self.best = sorted(self.best, key=lambda epoch: (epoch.loss, epoch.step))[: self.options.best]
        return loss

    def result(self) -> HushWord:
        """The best epochs averaged, or the very best one where the average is no better."""
        average = torch.stack([epoch.samples for epoch in self.best]).mean(0)
        tried = {"average": (self.held_out_loss(average), average), "best": (self.best[0].loss, self.best[0].samples)}
        kind = min(tried, key=lambda name: tried[name][0])
        loss, samples = tried[kind]
        zeros = self.held_out_loss(torch.zeros_like(average))
        settings = {name: value for name, value in asdict(self.options).items() if name != "content_hash"}
        report = {
            "held_out": round(loss, 4),
            "held_out_zeros": round(zeros, 4),
            "kept": kind,
            "epochs": [epoch.step for epoch in self.best],
            "rms": round(float(samples.square().mean().sqrt()), 4),
            "options": settings,
        }
        return HushWord(samples.cpu().numpy(), self.options.content_hash, report)

    # --- the state ----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write `state.pt`, whole or not at all. Raises `OutputError`."""
        content = {
            "step": self.step,
            "hush": self.hush.detach(),
            "optimiser": self.optimiser.state_dict(),
            "best": [asdict(epoch) for epoch in self.best],
        }
        with writing():
            write_state(self.folder, content)

    def load(self) -> None:
        """Go on where `state.pt` left off. Raises `CheckpointError` where it is damaged."""
        content = read_state(self.folder, self.device)
        try:
            with torch.no_grad():
                self.hush.copy_(content["hush"])
            self.optimiser.load_state_dict(content["optimiser"])
            self.best = [Epoch(**epoch) for epoch in content["best"]]
            self.step = content["step"]
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self.folder / STATE} is damaged ({error}); remove {self.folder} and start the run again"
            ) from error


def open_trainer(
    network: Whisper, tokenizer: Tokenizer, speech: Shards, options: HushOptions, folder: Path, device: str = "cpu"
) -> HushTrainer:
    """A run in `folder`: a new one, or the one there is, which goes on.

    Sentences that are reserved for evaluation are left out. Raises `CorpusError` where there is too little speech,
    `OptionError` where the run that is there has other options, `OutputError` where the folder cannot be written.
    """
    usable = speech.having(lambda place: not is_reserved(place.entry["text"]))
    if len(usable) < _SMALLEST:
        raise CorpusError(
            f"expected at least {_SMALLEST} utterances that are not reserved for tests; got {len(usable)}"
        )
    held_back = Shards(usable.places[::HELD_BACK])
    trained = Shards(tuple(place for number, place in enumerate(usable.places) if number % HELD_BACK))
    note_options(options, folder)
    batches = HushBatches(trained, tokenizer, options, network.dims.n_mels, options.seed)
    quiet = replace(options, windows=replace(options.windows, augmentation=clean()))
    kept = HushBatches(held_back, tokenizer, quiet, network.dims.n_mels, seed=options.seed + 1)
    tested = [window for number in range(-(-options.held_out // options.batch)) for window in kept[number]]
    trainer = HushTrainer(network, batches, tested[: options.held_out], options, folder, device)
    if (folder / STATE).exists():
        trainer.load()
    return trainer
