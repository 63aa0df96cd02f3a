"""The hush word: a learned stretch of sound after the audio, by which a model knows that speech ends (WhisperFlow).

It belongs to one checkpoint and lies next to it, one file per length. Published hush words are CSV files, one sample a
line (the WhisperFlow authors' code, `audio_tag/*.csv`). Its samples are used as they are: some lie beyond full scale,
and their mean is not zero. Training is `training.hush`'s business; how it gets after the audio, `decoding.longform`'s.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from whispertide.checkpoint import attachments
from whispertide.checkpoint.attachments import Attachment, Kind
from whispertide.checkpoint.untrusted import regular_bytes, shorten
from whispertide.errors import CheckpointError, OptionError
from whispertide.model.whisper import WhisperModel
from whispertide.streaming.framing import LONGEST_HUSH_S, SHORTEST_HUSH_S
from whispertide.types import FloatArray, seconds, to_samples

KIND = Kind(
    "a hush word",
    "hush-{variant}s.npz",
    "whispertide train hush --model {model} --seconds {variant}",
    largest=4 << 20,  # 5 s as text have half of that
)
DEFAULT_S = 0.5
_LOUDEST = 10.0  # the published ones reach 2.2


@dataclass(frozen=True, slots=True)
class HushWord:
    """The hush word of one checkpoint.

    samples        float32 [n] at 16 kHz
    content_hash   of the checkpoint that it was trained for; "" where the file does not say (CSV)
    report         what it was trained on and what training measured of it
    """

    samples: FloatArray
    content_hash: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        least, most = to_samples(SHORTEST_HUSH_S), to_samples(LONGEST_HUSH_S)
        if self.samples.ndim != 1 or not least <= len(self.samples) <= most:
            raise CheckpointError(
                f"expected a hush word of {SHORTEST_HUSH_S:g} to {LONGEST_HUSH_S:g} s, which is {least} to {most} "
                f"samples in one row; got an array of shape {self.samples.shape}"
            )
        if not np.isfinite(self.samples).all() or np.abs(self.samples).max() > _LOUDEST:
            raise CheckpointError(
                f"expected the samples of a hush word to be numbers from -{_LOUDEST:g} to {_LOUDEST:g}; got "
                f"{np.count_nonzero(~np.isfinite(self.samples))} that are not finite, or louder"
            )
        if not np.ptp(self.samples):
            raise CheckpointError("expected the samples of a hush word to be a sound; all are one number")

    @property
    def seconds(self) -> float:
        return seconds(len(self.samples))

    def save(self, path: Path) -> None:
        """Write it as a `.npz`. Raises OSError."""
        samples = np.asarray(self.samples, np.float32)
        attachments.save(path, Attachment({"samples": samples}, self.content_hash, self.report))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a `.npz` that `save` wrote, or a CSV with a sample a line.

        Raises `CheckpointNotFoundError` where there is none, `CheckpointError` where it is damaged, of no sensible
        length, or holds what are no samples.
        """
        if path.suffix.lower() == ".csv":
            return cls._read_csv(path)
        found = attachments.load(KIND, path, {"samples": (None,)})
        try:
            return cls(np.asarray(found.arrays["samples"], np.float32), found.content_hash, found.report)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error

    @classmethod
    def _read_csv(cls, path: Path) -> Self:
        try:
            # Not `splitlines`, which also splits at characters that are no ends of lines in a CSV.
            lines = regular_bytes(path, KIND.largest).decode().split("\n")
            return cls(np.array([_sample(number, line) for number, line in enumerate(lines, 1) if line.strip()], "f4"))
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error
        except (OSError, ValueError) as error:
            raise CheckpointError(f"expected a CSV of samples; {path} cannot be read: {shorten(error)}") from error

    def mismatch(self, model: WhisperModel) -> str | None:
        """The reason why it might not suit `model`; None where it was trained for this very checkpoint."""
        if self.content_hash in (model.content_hash, model.checkpoint.tensors_hash):
            return None
        trained = "for another checkpoint" if self.content_hash else "for a checkpoint that its file does not name"
        return (
            f"the hush word was trained {trained} ({self.content_hash[:12] or 'none'}; {model.name} is "
            f"{model.content_hash[:12]}): expect worse transcripts, or train one with "
            f"{KIND.making(model.checkpoint.argument, f'{self.seconds:g}')}"
        )


def suffix_for(model: WhisperModel, hush_s: float = DEFAULT_S, given: HushWord | None = None) -> FloatArray:
    """The samples that go after every window with the framing `hush`.

    They are those of the hush word that is `given`, else of the checkpoint's own of `hush_s` seconds; a
    `UserWarning` says if it was trained for another checkpoint, or does not say for which. Raises
    `CheckpointNotFoundError` where there is none, `CheckpointError` where it is damaged, and `OptionError` where it has
    another length than `hush_s`.
    """
    word = given
    if word is None:
        word = HushWord.load(attachments.find(model.checkpoint, KIND, f"{hush_s:g}", instead="framing=bare"))
    # A length in seconds need not be a whole number of samples.
    if abs(word.seconds - hush_s) > 1e-3:
        raise OptionError(f"expected a hush word of {hush_s:g} s (hush_s); got one of {word.seconds:g} s")
    if mismatch := word.mismatch(model):
        warnings.warn(mismatch, UserWarning, stacklevel=3)
    return word.samples


def has_word(model: WhisperModel, hush_s: float = DEFAULT_S) -> bool:
    """True if the checkpoint has a hush word of that length."""
    return attachments.anywhere(model.checkpoint, KIND, f"{hush_s:g}") is not None


def _sample(number: int, line: str) -> float:
    try:
        return float(line)
    except ValueError:
        raise CheckpointError(f"expected one sample in line {number}; got {line.strip()[:40]!r}") from None
