"""Training a small thing in epochs: updates, a rate that falls, the best epochs by held-out loss, saving and going on.

What is learned from a batch, and from which batches, its users say: adapters (`adapter_run`) and networks of their own
(`latecontext`). A batch is a function of the seed and its number, so a run that was stopped and resumed is, on one
machine's CPU, the run that was not. Needs torch. Knows nothing of command lines.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from whispertide.errors import CheckpointError, OptionError
from whispertide.lab.training.loop import STATE, Figures, append_log, read_state, write_state
from whispertide.lab.training.small_run import writing

_WARM_UP = 0.05  # of the run

Progress = Callable[[int, Figures], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOptions:
    """How long something is trained, and how fast.

    steps        updates in all, `epoch` of them in an epoch
    minutes      the run ends after so many, if that is earlier; None: no limit
    rate         of AdamW, at its highest; it falls to nothing along half a cosine
    best         so many epochs are kept, by the loss on `held_out` batches
    """

    steps: int = 2000
    minutes: float | None = None
    epoch: int = 50
    rate: float = 1e-3
    best: int = 3
    held_out: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        counts = (self.steps, self.epoch, self.best, self.held_out)
        if min(counts) < 1 or self.rate <= 0 or (self.minutes is not None and self.minutes <= 0):
            raise OptionError(
                "expected steps, epoch, best and held_out from 1, and rate and minutes above 0; got "
                f"{', '.join(map(str, counts))}, {self.rate:g} and {self.minutes}"
            )


class Batch(Protocol):
    """What an update learns from."""

    @property
    def seconds(self) -> float:
        """Of sound."""

    @property
    def count(self) -> int:
        """How many tokens count."""

    def to(self, device: torch.device) -> Self:
        """On that device."""


B = TypeVar("B", bound=Batch)
B_co = TypeVar("B_co", bound=Batch, covariant=True)


class Batches(Protocol[B_co]):
    """Where they come from: batch `number` of a run."""

    def __getitem__(self, number: int) -> B_co:
        """One of them."""

    def after(self, done: int, until: int, workers: int) -> Iterator[B_co]:
        """The batches from number `done` up to `until`, made by `workers` processes (0: here)."""


@dataclass(slots=True)
class Epoch:
    """The parameters as they were after an epoch, and their loss per token on what is not trained on."""

    step: int
    loss: float
    parameters: list[Tensor]


class EpochTrainer(Generic[B]):
    """Parameters, their optimiser, and the best epochs so far. `folder` is the run.

    Who learns says its `loss`.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        batches: Batches[B],
        held_out: Sequence[B],
        options: EpochOptions,
        folder: Path,
        device: torch.device,
    ) -> None:
        self.settings, self.folder, self.device = options, folder, device
        self.parameters, self.batches = list(parameters), batches
        self._held_out = [batch.to(self.device) for batch in held_out]
        self.optimiser = torch.optim.AdamW(self.parameters, lr=options.rate, weight_decay=0.01, eps=1e-6)
        self.step, self.trained_s, self.heard_s = 0, 0.0, 0.0
        self.best: list[Epoch] = []

    def loss(self, batch: B) -> Tensor:
        """Summed over the tokens that count."""
        raise NotImplementedError

    def parts(self, batch: B) -> Iterator[B]:
        """What of a batch goes into one optimiser step each: all of it."""
        yield batch

    # --- an update ----------------------------------------------------------------------------------------------------

    @property
    def gone(self) -> float:
        """How much of the run is over, 0 to 1: of its updates or of its time."""
        share, minutes = self.step / self.settings.steps, self.settings.minutes
        return share if minutes is None else max(share, self.trained_s / (60 * minutes))

    def rate(self) -> float:
        """Of the update to come."""
        gone = min(1.0, self.gone)
        rising, falling = min(1.0, (gone + 1e-3) / _WARM_UP), 0.5 * (1 + math.cos(math.pi * gone))
        return self.settings.rate * rising * falling

    def update(self, batch: B) -> float:
        """One update; returns the loss per token. A step whose gradient is no number changes nothing."""
        self.optimiser.param_groups[0]["lr"] = self.rate()
        total, count = 0.0, batch.count
        for part in self.parts(batch):
            self.optimiser.zero_grad(set_to_none=True)
            loss = self.loss(part.to(self.device))
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
        options, made = self.settings, self.batches.after(self.step, self.settings.steps, workers)
        losses, before, began = list[float](), self.trained_s, time.monotonic()
        while self.gone < 1:
            losses.append(self.update(next(made)))
            self.trained_s = before + time.monotonic() - began
            figures = {"loss": losses[-1]}
            if self.step % options.epoch == 0 or self.gone >= 1:
                held_out = self._end_epoch()
                figures = {"epoch_loss": float(np.mean(losses)), "held_out": held_out, "rate": self.rate()}
                with writing():
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
        """Per token of what is not trained on."""
        with torch.no_grad():
            total = sum(float(self.loss(batch)) for batch in self._held_out)
        return total / sum(batch.count for batch in self._held_out)

    def _end_epoch(self) -> float:
        loss = self.held_out_loss()
        self.best.append(Epoch(self.step, loss, [matrix.detach().clone() for matrix in self.parameters]))
        self.best = sorted(self.best, key=lambda epoch: (epoch.loss, epoch.step))[: self.settings.best]
        return loss

    def take(self, parameters: Sequence[Tensor]) -> None:
        """Go on with these parameters."""
        with torch.no_grad():
            for matrix, values in zip(self.parameters, parameters, strict=True):
                matrix.copy_(values)

    # --- the state ----------------------------------------------------------------------------------------------------

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
        with writing():
            write_state(self.folder, content)

    def load(self) -> None:
        """Go on where `state.pt` left off. Raises `CheckpointError` where it is damaged."""
        content = read_state(self.folder, self.device)
        try:
            self.take(content["parameters"])
            self.optimiser.load_state_dict(content["optimiser"])
            self.best = [Epoch(**epoch) for epoch in content["best"]]
            self.step, self.trained_s, self.heard_s = content["step"], content["trained_s"], content["heard_s"]
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self.folder / STATE} is damaged ({error}); remove {self.folder} and start the run again"
            ) from error

    def resume(self) -> None:
        """The same, where there is a state."""
        if (self.folder / STATE).exists():
            self.load()
