"""Is the last word of a window whole? An integrate-and-fire layer over the encoder's output, as Simul-Whisper has it.

One linear layer gives every encoder frame a weight between 0 and 1; the weights are integrated, and each time the sum
passes a whole number a word has ended. A window whose last word ends with the audio fires at its end; one that is cut
inside a word does not. Arithmetic: Simul-Whisper (Wang et al. 2024), `fire_at_boundary` in its code. Numpy only;
training is `training.truncation`'s business, and what the answer is used for the policy's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint import Checkpoint, attachments
from whispertide.checkpoint.attachments import Attachment, Kind
from whispertide.types import FloatArray

KIND = Kind("a word-truncation detector", "truncation.npz", "whispertide train truncation {model}")
_NEARLY_ONE = 0.999  # the sum fires a little early, so that rounding does not matter
END_FRAMES = 2  # a firing in the last frames but one counts as at the end
_PASSES = 10  # as in the published code


def rescaled(weights: FloatArray) -> npt.NDArray[np.float64]:
    """Weights [frames] scaled so that they sum to a whole number, the nearest; none above `_NEARLY_ONE`.

    A weight above it makes all weights move half-way to half of their mean, up to ten times (`resize` in the code).
    """
    scaled = weights.astype(np.float64)
    total = float(scaled.sum())
    # Without any weight the sum rounds to 0, and the weights stay what they are.
    scaled *= round(total) / max(total, 1e-9)
    for _ in range(_PASSES):
        for place in np.flatnonzero(scaled > _NEARLY_ONE):
            # An earlier place of this pass may have brought it down by now.
            if scaled[place] >= _NEARLY_ONE:
                present = scaled != 0
                scaled = 0.5 * scaled + 0.5 * scaled.sum() / present.sum() * present
    return scaled


def last_firing(weights: FloatArray) -> int | None:
    """The frame at which the integral of weights [frames] passes its last whole number; the very last frame does not
    count (the end of the audio itself makes a peak there, which says nothing). None where there is none, or rounding
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
    return integral, int(integral[-1] // _NEARLY_ONE)


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
        """True if a word ends at the end of `hidden` [frames, width]: then the last word is whole."""
        place = last_firing(self.weights(hidden))
        return place is not None and place >= len(hidden) - END_FRAMES

    def save(self, path: Path) -> None:
        """Write it as a `.npz`. Raises OSError."""
        arrays = {"weight": np.asarray(self.weight, np.float32), "bias": np.asarray(self.bias, np.float32)}
        attachments.save(path, Attachment(arrays, self.content_hash, self.report))

    @classmethod
    def load(cls, path: Path, *hashes: str, width: int) -> Self:
        """Read a detector and check that it belongs to a checkpoint of this encoder width and one of these hashes.

        Raises `CheckpointNotFoundError` where there is none, and `CheckpointError` where it is damaged or belongs to
        another checkpoint.
        """
        found = attachments.load(KIND, path, {"weight": (width,), "bias": ()}, *hashes)
        weight = np.asarray(found.arrays["weight"], np.float32)
        return cls(weight, float(found.arrays["bias"]), found.content_hash, found.report)

    @classmethod
    def of_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        """The checkpoint's own. Raises as `load` does."""
        path = attachments.find(checkpoint, KIND, instead="truncate=last-word")
        return cls.load(path, *checkpoint.hashes, width=checkpoint.dims.n_audio_state)
