"""How much each tensor suffers at each number of bits, alone. What was measured is kept."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whispertide.atomic import write_text
from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.checkpoint.palette import BITS
from whispertide_lab.compression.divergence import Comparison, can_be_changed
from whispertide_lab.compression.palettise import palettise

MIN_WEIGHTS = 16_384  # smaller tensors stay as they are; WhisperKit's limit of 1e5 would leave much of a small model
UNCHANGED = 16  # the bits of a tensor that is kept as it is
_VERSION = 2  # counts up when the same tensor would be palettised, or measured, in another way

Progress = Callable[[str, int, int], None]  # which tensor, measurements done, and in all


@dataclass(frozen=True, slots=True)
class Option:
    """A tensor at a number of bits: its bytes, and the divergence of a model in which it alone is so."""

    bits: int
    nbytes: int
    kl: float
    mse: float


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A tensor and what it may become, by rising bits; the last option is to keep it."""

    name: str
    weights: int
    options: tuple[Option, ...]

    @property
    def in_encoder(self) -> bool:
        """Whether the published way judges it by the encoder's output."""
        return self.name.startswith("encoder.")

    def published(self, option: Option) -> float:
        """The divergence that the published way looks at: squared error in the encoder, else that of the text."""
        return option.mse if self.in_encoder else option.kl

    def at(self, bits: int) -> Option:
        """The option of so many bits."""
        return next(option for option in self.options if option.bits == bits)


def compressible(checkpoint: Checkpoint, min_weights: int = MIN_WEIGHTS) -> tuple[str, ...]:
    """The tensors that are palettised: matrices, convolutions and tables of so many weights, by name."""
    shapes = {name: checkpoint.tensors.shape(name) for name in sorted(checkpoint.tensors.names())}
    return tuple(
        name for name, shape in shapes.items() if can_be_changed(shape) and math.prod(shape) >= max(1, min_weights)
    )


class Kept:
    """Measurements on the disk, in the cache directory; `samples` is the digest of what they were made on."""

    def __init__(self, checkpoint: Checkpoint, samples: str) -> None:
        name = f"{checkpoint.content_hash[:20]}-{samples}-v{_VERSION}.json"
        self.path: Path = cache_dir() / "compression" / name
        self._found: dict[str, dict[str, Any]] = {}
        with suppress(OSError, ValueError):  # none yet, or damaged: measured again
            self._found = json.loads(self.path.read_text(encoding="utf-8"))

    def get(self, name: str, bits: int) -> Option | None:
        """What was measured, if it was."""
        try:
            about = self._found[name][str(bits)]
            return Option(bits, int(about["nbytes"]), float(about["kl"]), float(about["mse"]))
        except (KeyError, TypeError, ValueError):
            return None

    def put(self, name: str, option: Option) -> None:
        """Keep it; where the cache cannot be written nothing is kept."""
        about = {"nbytes": option.nbytes, "kl": option.kl, "mse": option.mse}
        self._found.setdefault(name, {})[str(option.bits)] = about
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self.path, json.dumps(self._found))


def measure(
    checkpoint: Checkpoint,
    comparison: Callable[[], Comparison],
    kept: Kept,
    *,
    names: Sequence[str],
    widths: Sequence[int] = BITS,
    progress: Progress,
) -> list[Sensitivity]:
    """The sensitivities of these tensors at these numbers of bits.

    `comparison` is called only where something has not been measured before. Raises what it raises.
    """
    found: list[Sensitivity] = []
    opened: Comparison | None = None
    for number, name in enumerate(names):
        options = []
        for step, bits in enumerate(widths):
            progress(name, number * len(widths) + step, len(names) * len(widths))
            option = kept.get(name, bits)
            if option is None:
                opened = opened or comparison()
                option = _measured(checkpoint, opened, name, bits)
                kept.put(name, option)
            options.append(option)
        weights = math.prod(checkpoint.tensors.shape(name))
        found.append(Sensitivity(name, weights, (*options, Option(UNCHANGED, 2 * weights, 0.0, 0.0))))
    return found


def _measured(checkpoint: Checkpoint, comparison: Comparison, name: str, bits: int) -> Option:
    palettised = palettise(checkpoint.tensors.get(name), bits)
    divergence = comparison.divergence({name: palettised.values()})
    return Option(bits, palettised.nbytes, divergence.kl, divergence.mse)


def inversions(sensitivities: Sequence[Sensitivity]) -> float:
    """The share of steps to more bits, of all tensors, after which the published divergence is larger."""
    steps = [
        one.published(more) > one.published(fewer)
        for one in sensitivities
        for fewer, more in zip(one.options[:-2], one.options[1:-1], strict=True)
    ]
    return sum(steps) / len(steps) if steps else 0.0


Bits = Mapping[str, int]  # by tensor; UNCHANGED: kept
