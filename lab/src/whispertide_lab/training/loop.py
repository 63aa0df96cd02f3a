"""The training loop: mixed precision, warm-up and cosine, gradient accumulation, averaged weights, exact resume.

A run is a folder: `state.pt` (everything needed to go on, on another machine too) and `log.jsonl` (a line per report);
`run` says what else is in it. What an update does depends on the seed, its number and the state alone, so a run that
was stopped and resumed is the run that was not: to the bit on one machine's CPU.

Needs torch. Knows nothing of command lines, nor where batches come from.
"""

import copy
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whispertide.atomic import replacing, write_text
from whispertide.errors import CheckpointError, OptionError
from whispertide.options import check_choice, check_range
from whispertide_lab.training.batches import Batch
from whispertide_lab.training.compact import CompactVocabulary
from whispertide_lab.training.device import mixed_precision
from whispertide_lab.training.losses import (
    FRAMES_PER_SECOND,
    Blur,
    CharacterHead,
    departure,
    guidance,
    next_tokens,
    spelled,
)
from whispertide_lab.training.network import Whisper

STATE = "state.pt"
LOG = "log.jsonl"
_HIGHEST = 1e6  # of rates; all that are of use are far below
_PRECISIONS = ("bf16", "fp32")

Figures = dict[str, float]
Progress = Callable[[int, Figures], None]


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """How a network is trained. Rates are per update, times in seconds."""

    steps: int
    rate: float = 5e-4
    final_rate: float = 2e-5
    warm_up: int = 300
    weight_decay: float = 0.01
    clip: float = 1.0
    accumulate: int = 1
    smoothing: float = 0.05
    ctc: float = 0.3
    guide: float = 0.3
    guided: tuple[tuple[int, int], ...] = ()  # (layer, head) pairs that are told where to look
    guide_slack_s: tuple[float, float] = (0.3, 0.1)  # at the beginning, at the end
    blur_s: tuple[float, float] = (0.0, 0.0)  # timestamps are taught as bells so wide, at the beginning, at the end
    keep: float = 0.0  # of the share of staying, where somebody speaks, near what the run began with (`departure`)
    average: float = 0.999  # of the weights, per update
    precision: str = "bf16"  # or "fp32"
    seed: int = 0
    report_every: int = 50
    save_every: int = 500

    def __post_init__(self) -> None:
        check_choice("the precision", self.precision, _PRECISIONS)
        for name in ("steps", "accumulate", "report_every", "save_every"):
            check_range(name, getattr(self, name), 1, math.inf)
        for name in ("rate", "final_rate"):
            check_range(name, getattr(self, name), 0.0, _HIGHEST)
        if not self.rate:
            raise OptionError("expected rate above 0; got 0: nothing would be learned")


@dataclass(slots=True)
class _Meter:
    """What happened since the last report."""

    began: float = field(default_factory=time.monotonic)
    heard_s: float = 0.0
    windows: int = 0
    waited_s: float = 0.0

    def figures(self) -> Figures:
        """Seconds of sound and windows per second, and the share of the time in which no batch was ready."""
        spent = max(1e-9, time.monotonic() - self.began)
        return {
            "speech_per_s": self.heard_s / spent,
            "windows_per_s": self.windows / spent,
            "waiting": self.waited_s / spent,
        }


class Trainer:
    """Network, optimiser and averages of a run, and how far it is.

    `network` has the rows of `vocabulary` (see `CompactVocabulary.shrink`); parameters that do not require a gradient
    stay as they are. `held_out` batches are not trained on; their loss is reported at every save.
    """

    def __init__(
        self,
        network: Whisper,
        vocabulary: CompactVocabulary,
        options: LoopOptions,
        folder: Path,
        device: str = "cpu",
        held_out: Sequence[Batch] = (),
    ) -> None:
        self.options, self.folder, self.device, self.vocabulary = options, folder, torch.device(device), vocabulary
        self.network = network.to(self.device)
        self.characters = CharacterHead(network.dims.n_audio_state).to(self.device)
        self._held_out = held_out
        self._before = copy.deepcopy(self.network).eval().requires_grad_(False) if options.keep > 0 else None
        self._rows = torch.from_numpy(vocabulary.rows()).to(self.device)
        self._trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
        self._parameters = [*self._trained.values(), *self.characters.parameters()]
        self.optimiser = self._new_optimiser()
        self.averages = {name: p.detach().clone() for name, p in self._trained.items()}
        self.step = 0
        self.heard_s = 0.0
        self._sums: Figures = {}

    def _new_optimiser(self) -> torch.optim.Optimizer:
        options = self.options
        # Matrices alone decay: norms and biases have no reason to be small.
        decayed = [p for p in self._parameters if p.dim() > 1]
        others = [p for p in self._parameters if p.dim() <= 1]
        groups = [{"params": decayed, "weight_decay": options.weight_decay}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98), fused=True)

    @property
    def batches_done(self) -> int:
        """The number of the batch that is next."""
        return self.step * self.options.accumulate

    # --- one update ---------------------------------------------------------------------------------------------------

    def rate(self) -> float:
        """Of the update to come: warm-up, then half a cosine."""
        options = self.options
        if self.step < options.warm_up:
            return options.rate * (self.step + 1) / options.warm_up
        gone = (self.step - options.warm_up) / max(1, options.steps - options.warm_up)
        return options.final_rate + (options.rate - options.final_rate) * 0.5 * (1 + math.cos(math.pi * gone))

    def update(self, batches: Sequence[Batch]) -> Figures:
        """One update by `accumulate` batches, as if they were one; returns the parts of the loss.

        Where the gradient is no number the weights stay as they are ("skipped" counts it).
        """
        self.network.train()
        self.optimiser.zero_grad(set_to_none=True)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        counts = count_together(batches)
        parts: dict[str, Tensor] = {}
        for batch in batches:
            losses = self._losses(batch, counts)
            torch.stack(list(losses.values())).sum().backward()
            for name, value in losses.items():
                parts[name] = parts.get(name, 0) + value.detach()
        parts["norm"] = torch.nn.utils.clip_grad_norm_(self._parameters, self.options.clip)
        figures = dict(
            zip(parts, torch.stack(list(parts.values())).tolist(), strict=True)
        )  # the GPU is waited for once
        skipped = not math.isfinite(figures["norm"])
        if not skipped:
            self.optimiser.step()
        self.step += 1
        # Short at first, or the averages would remember the random start for long.
        decay = min(self.options.average, (1 + self.step) / (10 + self.step))
        torch._foreach_lerp_(list(self.averages.values()), [p.detach() for p in self._trained.values()], 1 - decay)
        return {"skipped": 1.0} if skipped else figures | {"skipped": 0.0}

    def _losses(self, batch: Batch, counts: Mapping[str, int]) -> dict[str, Tensor]:
        """The parts of the loss: sums over this batch, divided by what counts in all batches of the update."""
        options = self.options
        gone = self.step / options.steps
        mel, tokens = self._moved(batch.mel), self._moved(batch.tokens)
        counted = (batch.targets >= 0).flatten().nonzero().squeeze(1)  # found on the CPU: no waiting for the GPU
        spoken = self._moved(_of_speech(batch, counted))
        aims, counted = self._moved(batch.targets.flatten()[counted]), self._moved(counted)
        losses = {}
        with mixed_precision(self.device.type, enabled=self.options.precision == "bf16"):
            encoded = self.network.encoder(mel)
            hidden, seen = self.network.decoder(
                self._rows[tokens], encoded, options.guided if options.guide > 0 else ()
            )
            weight = self.network.decoder.embed_tokens.weight
            logits = self.vocabulary.logits(hidden.flatten(0, 1)[counted], weight)
            losses["next"] = next_tokens(logits, self._rows[aims], options.smoothing, self._blur(gone)) / counts["next"]
            if self._before is not None:
                known = self._known(mel, tokens, counted[spoken])
                losses["keep"] = options.keep * departure(logits[spoken], known) / counts["next"]
            if (ctc := options.ctc * (1 - gone)) > 0:
                losses["ctc"] = ctc * self.characters.loss(encoded, batch.texts) / max(1, counts["ctc"])
        if seen:
            first, last = options.guide_slack_s
            places, slack = self._moved(batch.places), first + (last - first) * gone
            total = torch.stack([guidance(weights, places, slack) for weights in seen]).mean()
            losses["guide"] = options.guide * total / max(1, counts["guide"])
        return losses

    def _known(self, mel: Tensor, tokens: Tensor, counted: Tensor) -> Tensor:
        """What the network that the run began with would say at the places `counted`: logits [n, rows]."""
        assert self._before is not None
        with torch.no_grad():
            decoder = self._before.decoder
            hidden, _ = decoder(self._rows[tokens], self._before.encoder(mel))
            return self.vocabulary.logits(hidden.flatten(0, 1)[counted], decoder.embed_tokens.weight)

    def _blur(self, gone: float) -> Blur | None:
        first, last = self.options.blur_s
        width = (first + (last - first) * gone) * FRAMES_PER_SECOND
        return Blur(self.vocabulary.stamps, width) if width > 0 and self.vocabulary.stamps else None

    def _moved(self, values: Tensor) -> Tensor:
        return values.to(self.device, non_blocking=True)

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self, batches: Iterator[Batch], progress: Progress, stop: Callable[[], bool] = lambda: False) -> bool:
        """Train to the end with the batches from `batches_done` on; `progress(step, figures)` after every report.

        `stop` is asked after every update; where it says so the run is saved and ends early. Returns whether it ended
        by itself. After anything that is raised the last save counts. Raises OSError.
        """
        options, meter = self.options, _Meter()
        while self.step < options.steps:
            asked = time.monotonic()
            chosen = [next(batches) for _ in range(options.accumulate)]
            meter.waited_s += time.monotonic() - asked
            heard_s = sum(batch.seconds for batch in chosen)
            meter.heard_s += heard_s
            self.heard_s += heard_s
            meter.windows += sum(len(batch.texts) for batch in chosen)
            for name, value in self.update(chosen).items():
                self._sums[name] = self._sums.get(name, 0.0) + value
            if self.step % options.report_every == 0:
                self._report(meter, progress)
                meter = _Meter()
            if self.step % options.save_every == 0 or self.step == options.steps:
                self._validate(progress)
                self.save()
            elif stop():
                self.save()
                return False
        return True

    def _report(self, meter: _Meter, progress: Progress) -> None:
        learned = self.options.report_every - self._sums.get("skipped", 0.0)
        figures = {name: value / max(1.0, learned) for name, value in self._sums.items() if name != "skipped"}
        self._sums = {}
        self._tell(
            figures | {"skipped": self.options.report_every - learned, "rate": self.rate()} | meter.figures(), progress
        )

    def _tell(self, figures: Figures, progress: Progress) -> None:
        append_log(self.folder, self.step, figures)
        progress(self.step, figures)

    def _validate(self, progress: Progress) -> None:
        """The loss per token of the averaged weights on what is not trained on."""
        if not self._held_out:
            return
        counts = count_together(self._held_out)
        with self._averages_in_place(), torch.no_grad():
            parts = [self._losses(batch, counts)["next"] for batch in self._held_out]
        self._tell({"held_out": float(torch.stack(parts).sum())}, progress)

    @contextmanager
    def _averages_in_place(self) -> Iterator[None]:
        current = [p.detach().clone() for p in self._trained.values()]
        # They share their memory with the parameters, so that copying into them sets these.
        weights = [p.detach() for p in self._trained.values()]
        torch._foreach_copy_(weights, list(self.averages.values()))
        try:
            yield
        finally:
            torch._foreach_copy_(weights, current)

    # --- the state ----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write `state.pt`, whole or not at all. Raises OSError."""
        content: dict[str, Any] = {
            "step": self.step,
            "heard_s": self.heard_s,
            "options": asdict(self.options),
            "used": torch.from_numpy(self.vocabulary.used),
            "network": self.network.state_dict(),
            "characters": self.characters.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "averages": self.averages,
            "sums": self._sums,
        }
        if self._before is not None:
            content["before"] = self._before.state_dict()
        self.folder.mkdir(parents=True, exist_ok=True)
        write_state(self.folder, content)

    def load(self) -> None:
        """Go on where `state.pt` left off; what the log says of later updates is forgotten.

        Raises `CheckpointError` where there is none, or it belongs to another network.
        """
        content = read_state(self.folder, self.device)
        try:
            self.network.load_state_dict(content["network"])
            self.characters.load_state_dict(content["characters"])
            self.optimiser.load_state_dict(content["optimiser"])
            if self._before is not None:
                self._before.load_state_dict(content["before"])
        except (RuntimeError, ValueError, KeyError) as error:
            raise CheckpointError(
                f"expected the state of this very network in {self.folder / STATE}; got another: {error}"
            ) from error
        self.averages = {name: content["averages"][name].to(self.device) for name in self._trained}
        self.step, self.heard_s, self._sums = content["step"], content["heard_s"], content["sums"]
        cut_log(self.folder / LOG, self.step)


def count_together(batches: Sequence[Batch]) -> dict[str, int]:
    """What counts in these batches: tokens, letters, tokens whose place is known."""
    return {
        "next": sum(int((batch.targets >= 0).sum()) for batch in batches),
        "ctc": sum(len(spelled(text)) for batch in batches for text in batch.texts),
        "guide": sum(int((batch.places[..., 0] >= 0).sum()) for batch in batches),
    }


def _of_speech(batch: Batch, counted: Tensor) -> Tensor:
    """Which of the places `counted` in the flattened batch are of windows in which somebody speaks."""
    spoken = torch.tensor([bool(text) for text in batch.texts])
    return spoken[counted // batch.targets.shape[1]].nonzero().squeeze(1)


def write_state(folder: Path, content: dict[str, Any]) -> None:
    """Keep the state of a run, whole or not at all. Raises OSError."""
    with replacing(folder / STATE) as unfinished, unfinished.open("wb") as file:
        torch.save(content, file)
        # To the disk before it gets its name (`replacing`): a power cut must not leave an empty state.
        file.flush()
        os.fsync(file.fileno())


def read_state(folder: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """What `write_state` wrote. Raises `CheckpointError` where there is nothing, or it is damaged."""
    try:
        content: dict[str, Any] = torch.load(folder / STATE, map_location=device, weights_only=True)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"expected the state of a run in {folder}; there is no {STATE} yet: start it again"
        ) from error
    except Exception as error:  # torch raises whatever its unpickler does
        raise CheckpointError(f"{folder / STATE} is damaged ({error}); restore it, or start the run again") from error
    return content


def append_log(folder: Path, step: int, figures: Figures) -> None:
    """A line more in the log of a run. Raises OSError."""
    with (folder / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": step} | figures) + "\n")


def read_log(path: Path) -> list[Figures]:
    """The lines of a log; one that is cut off is left out. Empty where there is no log."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [figures for line in lines if (figures := _parsed(line)) is not None]


def _parsed(line: str) -> Figures | None:
    try:
        figures: Figures = json.loads(line)
    except ValueError:
        return None
    return figures if isinstance(figures, dict) and "step" in figures else None


def cut_log(path: Path, step: int) -> None:
    """Forget what a log says of later updates."""
    kept = [figures for figures in read_log(path) if figures["step"] <= step]
    if path.is_file():
        write_text(path, "".join(json.dumps(figures) + "\n" for figures in kept))
