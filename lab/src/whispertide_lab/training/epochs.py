"""Training a small thing in epochs: updates, a rate that falls, the best epochs by held-out loss, saving and going on.

What is learned from a batch, and from which batches, its users say: adapters (`adapter_run`) and networks of their own
(`latecontext`). A batch is a function of the seed and its number, so a run that was stopped and resumed is, on one
machine's CPU, the run that was not. Needs torch. Knows nothing of command lines.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from whispertide.atomic import writing
from whispertide.errors import CheckpointError, OptionError
from whispertide_lab.training.batches import Numbered
from whispertide_lab.training.device import quicker_precision
from whispertide_lab.training.loop import LOG, STATE, Figures, append_log, cut_log, read_state, write_state

Progress = Callable[[int, Figures], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOptions:
    """How long something is trained, and how fast.

    steps        updates in all, `epoch` of them in an epoch
    minutes      the run ends after so many, if that is earlier; None: no limit
    rate         of AdamW, at its highest; it falls to nothing along half a cosine
    best         so many epochs are kept, by the loss on `held_out` batches
    content_hash of the checkpoint that it is for, so that a run does not go on with another
    """

    steps: int = 2000
    minutes: float | None = None
    epoch: int = 50
    rate: float = 1e-3
    best: int = 3
    held_out: int = 8
    seed: int = 0
    content_hash: str = ""

    def __post_init__(self) -> None:
        counts = (self.steps, self.epoch, self.best, self.held_out)
        # Nothing is above nan, and nan is not below anything.
        if min(counts) < 1 or not self.rate > 0 or not (self.minutes is None or self.minutes > 0):
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


@dataclass(frozen=True, slots=True)
class Lessons(Generic[B]):
    """What is trained on, what is `held_out` to choose the best epochs by, and what the `data` is."""

    batches: Numbered[B]
    held_out: Sequence[B]
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Descent:
    """How AdamW goes down.

    warm_up  of the run, in which the rate rises
    lowest   to this share of its highest the rate falls, along half a cosine
    clip     longest gradient
    """

    warm_up: float = 0.05
    lowest: float = 0.0
    decay: float = 0.01
    eps: float = 1e-6
    clip: float = 1.0


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

    descent = Descent()

    def __init__(
        self, parameters: Sequence[Tensor], lessons: Lessons[B], options: EpochOptions, folder: Path, device: str
    ) -> None:
        self.settings, self.folder, self.device = options, folder, torch.device(device)
        self.parameters, self.batches, self.data = list(parameters), lessons.batches, lessons.data
        self._held_out = [batch.to(self.device) for batch in lessons.held_out]
        down = self.descent
        self.optimiser = torch.optim.AdamW(self.parameters, lr=options.rate, weight_decay=down.decay, eps=down.eps)
        self.step, self.trained_s, self.heard_s = 0, 0.0, 0.0
        self.losses: list[float] = []  # of the updates since the last epoch
        self.best: list[Epoch] = []

    def loss(self, batch: B) -> Tensor:
        """Summed over the tokens that count."""
        raise NotImplementedError

    def _precision(self) -> AbstractContextManager[object]:
        """Products in bfloat16 where the device has units for them: the losses themselves are in float32."""
        return quicker_precision(self.device.type)

    def parts(self, batch: B) -> Iterator[B]:
        """What of a batch goes into one optimiser step each: all of it."""
        yield batch

    def pieces(self, part: B) -> Iterator[B]:
        """What of a part goes through the network at once: all of it."""
        yield part

    # --- an update ----------------------------------------------------------------------------------------------------

    @property
    def gone(self) -> float:
        """How much of the run is over, 0 to 1: of its updates or of its time."""
        share, minutes = self.step / self.settings.steps, self.settings.minutes
        return share if minutes is None else max(share, self.trained_s / (60 * minutes))

    def rate(self) -> float:
        """Of the update to come."""
        gone, down = min(1.0, self.gone), self.descent
        # A little above nothing, or the first update would change nothing.
        rising = min(1.0, (gone + 1e-3) / down.warm_up) if down.warm_up else 1.0
        falling = down.lowest + (1 - down.lowest) * 0.5 * (1 + math.cos(math.pi * gone))
        return self.settings.rate * rising * falling

    def update(self, batch: B) -> float:
        """One update; returns the loss per token. A step whose gradient is no number changes nothing."""
        self.optimiser.param_groups[0]["lr"] = self.rate()
        total, count = 0.0, batch.count
        for part in self.parts(batch):
            self.optimiser.zero_grad(set_to_none=True)
            for piece in self.pieces(part):
                with self._precision():
                    loss = self.loss(piece.to(self.device))
                (loss / max(1, part.count)).backward()
                total += float(loss.detach())
            if float(torch.nn.utils.clip_grad_norm_(self.parameters, self.descent.clip)) < math.inf:
                self.optimiser.step()
        self.step += 1
        self.heard_s += batch.seconds
        return total / max(1, count)

    def run(self, progress: Progress, workers: int = 0, stop: Callable[[], bool] = lambda: False) -> bool:
        """Train to the end; `progress(step, figures)` after every update, with more figures after an epoch.

        `stop` is asked after every update; where it says so the run is saved and ends early. Returns whether it ended
        by itself. Raises `OutputError` where the folder cannot be written.
        """
        options, made = self.settings, self.batches.after(self.step, self.settings.steps, workers)
        before, began = self.trained_s, time.monotonic()
        while self.gone < 1:
            self.losses.append(self.update(next(made)))
            self.trained_s = before + time.monotonic() - began
            figures = {"loss": self.losses[-1]}
            if self.step % options.epoch == 0 or self.gone >= 1:
                figures = {"epoch_loss": float(np.mean(self.losses)), **self.end_epoch(), "rate": self.rate()}
                with writing(self.folder):
                    append_log(self.folder, self.step, figures)
                self.losses = []
                self.save()
            progress(self.step, figures)
            if self.gone < 1 and stop():
                self.save()
                return False
        return True

    def result(self) -> Any:
        """What was learned, with a `report`."""
        raise NotImplementedError

    # --- which is kept ------------------------------------------------------------------------------------------------

    def held_out_loss(self) -> float:
        """Per token of what is not trained on; infinite where it is no number, which compares with nothing."""
        with torch.no_grad(), self._precision():
            total = sum(float(self.loss(batch)) for batch in self._held_out)
        return math.inf if math.isnan(total) else total / sum(batch.count for batch in self._held_out)

    def end_epoch(self) -> Figures:
        """Keep what is learned if it is among the best; what was measured."""
        loss = self.held_out_loss()
        # Copies: the parameters themselves go on changing.
        self.best.append(Epoch(self.step, loss, [matrix.detach().clone() for matrix in self.parameters]))
        # Of equal losses the earlier, so that a run that was resumed keeps the same.
        self.best = sorted(self.best, key=lambda epoch: (epoch.loss, epoch.step))[: self.settings.best]
        return {"held_out": loss}

    def take(self, parameters: Sequence[Tensor]) -> None:
        """Go on with these parameters."""
        with torch.no_grad():
            for matrix, values in zip(self.parameters, parameters, strict=True):
                matrix.copy_(values)

    def take_mean(self, counts: Iterable[int]) -> tuple[int, float]:
        """Go on with the mean of so many of the best epochs: of the `counts` the first with the least loss on what is
        held out. That count and its loss.
        """
        losses: dict[int, float] = {}
        for count in counts:
            self._take_mean_of(count)
            losses[count] = self.held_out_loss()
        chosen = min(losses, key=losses.__getitem__)
        self._take_mean_of(chosen)
        return chosen, losses[chosen]

    def _take_mean_of(self, count: int) -> None:
        kept = [epoch.parameters for epoch in self.best[:count]]
        self.take([torch.stack(list(same)).mean(0) for same in zip(*kept, strict=True)])

    def report(self, measured: dict[str, Any]) -> dict[str, Any]:
        """What goes next to what was learned: what was `measured`, and what it was made from."""
        options = {name: value for name, value in asdict(self.settings).items() if name != "content_hash"}
        hours = round(self.heard_s / 3600, 2)
        return {**measured, "updates": self.step, "hours_heard": hours, "data": self.data, "options": options}

    # --- the state ----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write `state.pt`, whole or not at all. Raises `OutputError`."""
        content = {
            "step": self.step,
            "trained_s": self.trained_s,
            "heard_s": self.heard_s,
            "losses": self.losses,
            "parameters": [matrix.detach() for matrix in self.parameters],
            "optimiser": self.optimiser.state_dict(),
            "best": [{"step": epoch.step, "loss": epoch.loss, "parameters": epoch.parameters} for epoch in self.best],
        }
        with writing(self.folder):
            write_state(self.folder, content)

    def load(self) -> None:
        """Go on where `state.pt` left off. Raises `CheckpointError` where it is damaged."""
        content = read_state(self.folder, self.device)
        try:
            self.take(content["parameters"])
            self.optimiser.load_state_dict(content["optimiser"])
            self.best = [Epoch(**epoch) for epoch in content["best"]]
            self.step, self.trained_s, self.heard_s = content["step"], content["trained_s"], content["heard_s"]
            self.losses = list(content.get("losses", ()))  # states of earlier versions have none
            cut_log(self.folder / LOG, self.step)
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self.folder / STATE} is damaged ({error}); remove {self.folder} and start the run again"
            ) from error

    def resume(self) -> Self:
        """The same, where there is a state."""
        if (self.folder / STATE).exists():
            self.load()
        return self
