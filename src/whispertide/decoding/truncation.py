"""Is the last word of a window whole? An integrate-and-fire layer over the encoder's output, as Simul-Whisper has it.

One linear layer gives every encoder frame a weight between 0 and 1; the weights are integrated, and each time the sum
passes a whole number a word has ended. A window whose last word ends with the audio fires at its end; one that is cut
inside a word does not. Arithmetic: Simul-Whisper (Wang et al. 2024), `fire_at_boundary` in its code. Numpy only;
training is `training.truncation`'s business, and what the answer is used for the policy's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from whispertide.errors import CheckpointError, CheckpointNotFoundError
from whispertide.types import FloatArray

FILE_NAME = "truncation.npz"  # beside the checkpoint
FORMAT = 1
NEARLY_ONE = 0.999  # the sum fires a little early, so that rounding does not matter
END_FRAMES = 2  # a firing in the last frames but one counts as at the end
_PASSES = 10


def rescaled(weights: FloatArray) -> npt.NDArray[np.float64]:
    """Weights [frames] scaled so that they sum to a whole number, the nearest; none above `NEARLY_ONE`.

    A weight above it makes all weights move half-way to half of their mean, up to ten times (`resize` in the code).
    """
    scaled = weights.astype(np.float64)
    total = float(scaled.sum())
    scaled *= round(total) / max(total, 1e-9)
    for _ in range(_PASSES):
        for place in np.flatnonzero(scaled > NEARLY_ONE):
            if scaled[place] >= NEARLY_ONE:
                present = scaled != 0
                scaled = 0.5 * scaled + 0.5 * scaled.sum() / present.sum() * present
    return scaled


def last_firing(weights: FloatArray) -> int | None:
    """The last frame at which the integral of weights [frames] passes 1, 2, ...; the very last frame does not count.

    (The end of the audio itself makes a peak there, which says nothing.) None where there is no such frame, or rounding
    keeps the integral a little below it.
    """
    integral, count = _integral(weights)
    place = int(np.searchsorted(integral, count)) if count else len(integral)
    return place if place < len(integral) else None


def _integral(weights: FloatArray) -> tuple[npt.NDArray[np.float64], int]:
    """The running sum [frames - 1], and how many whole numbers it passes."""
    if len(weights) < END_FRAMES or not round(float(weights.sum(dtype=np.float64))):
        return np.zeros(0), 0
    integral = np.cumsum(rescaled(weights)[:-1])
    return integral, int(integral[-1] // NEARLY_ONE)


@dataclass(frozen=True, slots=True)
class TruncationDetector:
    """The trained layer of one checkpoint.

    weight, bias   [width] and a number: frame weights are sigmoid(hidden @ weight + bias)
    content_hash   of the checkpoint whose encoder it was trained on
    report         what training measured of it
    """

    weight: FloatArray
    bias: float
    content_hash: str
    report: Mapping[str, Any] = field(default_factory=dict)

    def weights(self, hidden: FloatArray) -> FloatArray:
        """Weights [frames] of the encoder's output [frames, width], which ends with the real audio."""
        scores = hidden @ self.weight + np.float32(self.bias)
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(scores, -60.0, 60.0))), np.float32)

    def fires(self, hidden: FloatArray) -> bool:
        """Whether a word ends at the end of `hidden` [frames, width]: then the last word is whole."""
        place = last_firing(self.weights(hidden))
        return place is not None and place >= len(hidden) - END_FRAMES

    def save(self, path: Path) -> None:
        """Write it as a `.npz`. Raises OSError."""
        with path.open("wb") as file:
            np.savez(
                file,
                format=np.int64(FORMAT),
                weight=np.asarray(self.weight, np.float32),
                bias=np.float32(self.bias),
                content_hash=np.str_(self.content_hash),
                report=np.str_(json.dumps(dict(self.report))),
            )

    @classmethod
    def load(cls, path: Path, *, width: int, content_hash: str) -> Self:
        """Read a detector and check that it belongs to a checkpoint of this encoder width and hash.

        Raises `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is damaged or belongs to
        another checkpoint.
        """
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
                found = {name: content[name] for name in ("format", "weight", "bias", "content_hash", "report")}
            if int(found["format"]) != FORMAT:
                raise CheckpointError(
                    f"expected a truncation detector of format {FORMAT}; {path} has format {int(found['format'])}: "
                    "train it again with `whispertide train truncation`"
                )
            detector = cls(
                np.asarray(found["weight"], np.float32),
                float(found["bias"]),
                str(found["content_hash"]),
                json.loads(str(found["report"])),
            )
        except FileNotFoundError as error:
            raise CheckpointNotFoundError(
                f"expected a truncation detector in {path}; there is none: make it with `whispertide train truncation`"
            ) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(
                f"{path} is damaged, or not a truncation detector ({type(error).__name__}): train it again with "
                "`whispertide train truncation`"
            ) from error
        detector._check(path, width, content_hash)
        return detector

    def _check(self, path: Path, width: int, content_hash: str) -> None:
        if self.weight.shape != (width,) or not np.isfinite(self.weight).all() or not np.isfinite(self.bias):
            raise CheckpointError(
                f"expected {width} finite weights in {path}; got {self.weight.shape}: it was trained for another model"
            )
        if self.content_hash != content_hash:
            raise CheckpointError(
                f"{path} was trained on another checkpoint ({self.content_hash[:12]}, not {content_hash[:12]}): train "
                "one for this model with `whispertide train truncation`"
            )
