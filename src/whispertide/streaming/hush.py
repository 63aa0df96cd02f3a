"""The hush word: a learned stretch of sound behind the audio, by which a model knows that speech ends (WhisperFlow).

It belongs to one checkpoint and lies beside it, one file per length. Published hush words are CSV files, one sample a
line (the WhisperFlow authors' code, `audio_tag/*.csv`). Its samples are used as they are: some lie beyond full scale,
and their mean is not zero. Training is `training.hush`'s business; how it gets behind the audio, `decoding.longform`'s.
"""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from zipfile import BadZipFile

import numpy as np

from whispertide.errors import CheckpointError, CheckpointNotFoundError, OptionError
from whispertide.streaming.beside import command_name, folder_of
from whispertide.streaming.framing import LONGEST_HUSH_S, SHORTEST_HUSH_S
from whispertide.types import FloatArray, seconds, to_samples

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel

FORMAT = 1
DEFAULT_S = 0.5
LOUDEST = 10.0  # the published ones reach 2.2
_FIELDS = ("format", "samples", "content_hash", "report")


def file_name(secs: float) -> str:
    """Of the hush word of that length, beside the checkpoint."""
    return f"hush-{secs:g}s.npz"


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
        if not np.isfinite(self.samples).all() or np.abs(self.samples).max() > LOUDEST:
            raise CheckpointError(
                f"expected the samples of a hush word to be numbers from -{LOUDEST:g} to {LOUDEST:g}; got "
                f"{np.count_nonzero(~np.isfinite(self.samples))} that are not finite, or louder"
            )

    @property
    def seconds(self) -> float:
        """Its length."""
        return seconds(len(self.samples))

    def save(self, path: Path) -> None:
        """Write it as a `.npz`. Raises OSError."""
        with path.open("wb") as file:
            np.savez(
                file,
                format=np.int64(FORMAT),
                samples=np.asarray(self.samples, np.float32),
                content_hash=np.str_(self.content_hash),
                report=np.str_(json.dumps(dict(self.report))),
            )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a `.npz` that `save` wrote, or a CSV with a sample a line.

        Raises `CheckpointNotFoundError` where there is none, `CheckpointError` where it is damaged, of no sensible
        length, or holds what are no samples.
        """
        try:
            return cls._read_csv(path) if path.suffix.lower() == ".csv" else cls._read(path)
        except FileNotFoundError as error:
            raise CheckpointNotFoundError(
                f"expected a hush word in {path}; there is none: make it with `whispertide train hush`"
            ) from error
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise CheckpointError(
                f"expected a hush word, a .npz from `whispertide train hush` or a .csv with one sample a line; {path} "
                f"is damaged or something else ({type(error).__name__})"  # numpy's own words advise to load it unsafely
            ) from error

    @classmethod
    def _read(cls, path: Path) -> Self:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            found = {name: content[name] for name in _FIELDS}
        if int(found["format"]) != FORMAT:
            raise CheckpointError(f"expected format {FORMAT}; got {int(found['format'])}: train it again")
        report = json.loads(str(found["report"]))
        return cls(np.asarray(found["samples"], np.float32), str(found["content_hash"]), report)

    @classmethod
    def _read_csv(cls, path: Path) -> Self:
        values = []
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
            if text := line.strip():
                try:
                    values.append(float(text))
                except ValueError:
                    raise CheckpointError(f"expected one sample in line {number}; got {text[:40]!r}") from None
        return cls(np.array(values, np.float32))

    def doubt(self, model: "WhisperModel") -> str | None:
        """Why it might not suit `model`; None where it was trained for this very checkpoint, or nobody can tell."""
        if self.content_hash in ("", model.content_hash):
            return None
        return (
            f"the hush word was trained for another checkpoint ({self.content_hash[:12]}; {model.name} is "
            f"{model.content_hash[:12]}): expect worse transcripts, or train one with `{_command(model, self.seconds)}`"
        )


def suffix_for(model: "WhisperModel", hush_s: float = DEFAULT_S, given: HushWord | None = None) -> FloatArray:
    """The samples that go after every window with the framing `hush`.

    They are those of the hush word that is `given`, else of the one of `hush_s` seconds beside the checkpoint; a
    `UserWarning` says if it was trained for another checkpoint. Raises `CheckpointNotFoundError` where there is none,
    `CheckpointError` where it is damaged, and `OptionError` where it has another length than `hush_s`.
    """
    word = _beside(model, hush_s) if given is None else given
    if abs(word.seconds - hush_s) > 1e-3:
        raise OptionError(f"expected a hush word of {hush_s:g} s (hush_s); got one of {word.seconds:g} s")
    if doubt := word.doubt(model):
        warnings.warn(doubt, UserWarning, stacklevel=3)
    return word.samples


def has_word(model: "WhisperModel", hush_s: float = DEFAULT_S) -> bool:
    """Whether a hush word of that length lies beside the checkpoint."""
    return (folder_of(model) / file_name(hush_s)).is_file()


def _beside(model: "WhisperModel", hush_s: float) -> HushWord:
    place = folder_of(model) / file_name(hush_s)
    try:
        return HushWord.load(place)
    except CheckpointNotFoundError as error:
        raise CheckpointNotFoundError(
            f"expected a hush word of {model.name} for framing=hush; there is no {place}: train it with "
            f"`{_command(model, hush_s)}`, or choose framing=bare"
        ) from error


def _command(model: "WhisperModel", hush_s: float) -> str:
    return f"whispertide train hush --model {command_name(model)} --seconds {hush_s:g}"
