"""A checkpoint -> a smaller one: measure each tensor, choose its bits, write palettes, and say what it did."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

import numpy as np

from whispertide.atomic import CHOOSE_OUTPUT, replacing, writing
from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.palette import BITS, Palettised
from whispertide.checkpoint.palette_file import Stored
from whispertide.errors import AudioError, CheckpointError, OptionError
from whispertide.model.whisper import WhisperModel
from whispertide.options import check_choice
from whispertide.types import FloatArray
from whispertide_lab.compression.choice import by_thresholds, forced, size_of, within
from whispertide_lab.compression.divergence import Comparison
from whispertide_lab.compression.folder import as_kept, check_folders, half_size, write_folder
from whispertide_lab.compression.palettise import palettise
from whispertide_lab.compression.report import REPORT, Report, row_of
from whispertide_lab.compression.samples import Sample, digest_of_samples, speech_samples
from whispertide_lab.compression.sensitivity import (
    MIN_WEIGHTS,
    UNCHANGED,
    Bits,
    Kept,
    Progress,
    Sensitivity,
    compressible,
    inversions,
    measure,
)

Way = Literal["budget", "thresholds"]
_HEADER = (
    700  # bytes of the header for a palettised tensor, and half of it for another; both are a little more than needed
)


@dataclass(frozen=True, slots=True)
class CompressOptions:
    """How small, and which way.

    size         the most that the file may take, as a share of the weights in float16
    way          budget: the least divergence within the size; thresholds: the published way, the finest of its recipes
                 within the size
    bits         so many for every tensor, whatever the size; None: by sensitivity
    min_weights  tensors with fewer stay in float16
    """

    size: float = 0.4
    way: Way = "budget"
    bits: int | None = None
    min_weights: int = MIN_WEIGHTS

    def __post_init__(self) -> None:
        check_choice("the way to choose bits", self.way, get_args(Way))
        if not 0.0 < self.size <= 1.0:
            raise OptionError(f"expected a size above 0 and at most 1, a share of fp16; got {self.size:g}")
        if self.bits is not None and self.bits not in BITS:
            raise OptionError(f"expected {', '.join(map(str, BITS))} bits; got {self.bits}")


class Compression:
    """What is known of one model while it is compressed. `recordings` are 16 kHz mono, to measure on.

    Raises `AudioError` where no speech is in the recordings.
    """

    def __init__(self, model: WhisperModel, recordings: Iterable[FloatArray], progress: Progress) -> None:
        self.checkpoint: Checkpoint = model.checkpoint
        self.samples: Sequence[Sample] = speech_samples(model, recordings)
        if not self.samples:
            raise AudioError(f"expected recordings in which {model.name} finds speech; it finds none: use others")
        self.threads = model.options.threads
        self._progress = progress
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> "Compression":
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    @cached_property
    def comparison(self) -> Comparison:
        """The model, open for changes; its graphs lie in a temporary folder until the end."""
        self._folder = TemporaryDirectory(prefix="whispertide-", ignore_cleanup_errors=True)
        return Comparison(self.checkpoint, self.samples, Path(self._folder.name), self.threads)

    def sensitivities(self, options: CompressOptions) -> list[Sensitivity]:
        """Of each tensor, at all numbers of bits or at the forced one; what was measured before comes from the cache.

        Raises `CheckpointError` for weights that are no finite numbers.
        """
        names = compressible(self.checkpoint, options.min_weights)
        widths = BITS if options.bits is None else (options.bits,)
        kept = Kept(self.checkpoint, digest_of_samples(self.samples))
        try:
            return measure(
                self.checkpoint, lambda: self.comparison, kept, names=names, widths=widths, progress=self._progress
            )
        except ValueError as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(f"{self.checkpoint.name} cannot be compressed: {error}") from error

    def choose(self, sensitivities: Sequence[Sensitivity], options: CompressOptions) -> Bits:
        """The bits of each tensor. Raises `OptionError` where no choice is small enough."""
        if options.bits is not None:
            return forced(sensitivities, options.bits)
        budget = self._budget([one.weights for one in sensitivities], options.size)
        found = [within(sensitivities, budget)] if options.way == "budget" else by_thresholds(sensitivities)
        fitting = [bits for bits in found if size_of(sensitivities, bits) <= budget]
        if not fitting:
            least = min(size_of(sensitivities, bits) for bits in found) - budget
            share = options.size + least / half_size(self.checkpoint)
            raise OptionError(
                f"expected a size that can be reached; {options.size:g} of fp16 cannot: the smallest choice this way "
                f"is {share:.2f}; ask for more, or choose another way"
            )
        return max(fitting, key=lambda bits: size_of(sensitivities, bits))

    def check_size(self, options: CompressOptions) -> None:
        """Raise `OptionError` where one bit for each weight is too much already: measuring can take an hour."""
        names = compressible(self.checkpoint, options.min_weights)
        weights = [math.prod(self.checkpoint.tensors.shape(name)) for name in names]
        missing = sum(weights) // 8 - self._budget(weights, options.size)
        if options.bits is None and names and missing > 0:
            share = options.size + missing / half_size(self.checkpoint)
            raise OptionError(
                f"expected a size that can be reached; {options.size:g} of fp16 cannot: one bit for each weight is "
                f"{share:.2f} already; ask for more"
            )

    def _budget(self, weights: Sequence[int], size: float) -> int:
        """Bytes for the tensors of so many weights each that may be palettised."""
        half = half_size(self.checkpoint)
        others = half - 2 * sum(weights)
        header = _HEADER * len(weights) + _HEADER // 2 * (len(self.checkpoint.tensors.names()) - len(weights))
        return int(size * half) - others - header

    def tensors(self, bits: Bits) -> dict[str, Stored]:
        """All of the checkpoint's, as they are stored."""
        found: dict[str, Stored] = {}
        for name in sorted(self.checkpoint.tensors.names()):
            weight, width = self.checkpoint.tensors.get(name), bits.get(name, UNCHANGED)
            found[name] = as_kept(weight) if width == UNCHANGED else palettise(weight, width)
        return found

    def write(self, sensitivities: Sequence[Sensitivity], bits: Bits, output: Path) -> Report:
        """Write the folder, whole or not at all, with its report. Raises `OutputError` where it cannot be written."""
        tensors = self.tensors(bits)
        with writing(output, CHOOSE_OUTPUT):
            output.parent.mkdir(parents=True, exist_ok=True)
            with replacing(output) as folder:
                folder.mkdir()
                size = write_folder(self.checkpoint, tensors, folder)
                report = self._report(sensitivities, bits, tensors, size)
                (folder / REPORT).write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
        return report

    def _report(
        self, sensitivities: Sequence[Sensitivity], bits: Bits, tensors: Mapping[str, Stored], size: int
    ) -> Report:
        changes = {name: tensors[name] for name in bits}
        values = {
            name: stored.values() if isinstance(stored, Palettised) else np.asarray(stored)
            for name, stored in changes.items()
        }
        return Report(
            name=self.checkpoint.name,
            original=self.checkpoint.content_hash,
            size=size,
            half_size=half_size(self.checkpoint),
            rows=tuple(row_of(one, bits[one.name]) for one in sensitivities),
            divergence=self.comparison.divergence(values),
            inversions=inversions(sensitivities),
        )


def compress(
    model: WhisperModel,
    output: Path,
    options: CompressOptions,
    recordings: Iterable[FloatArray],
    *,
    progress: Progress = lambda label, done, total: None,
    announce: Callable[[str], None] = lambda line: None,
) -> Report:
    """Compress a model into a new folder, which `load` reads like any checkpoint.

    Raises `CheckpointError`, `OptionError`, `OutputError`, `AudioError`, and what building graphs raises. What was
    measured before an interrupt is found again.
    """
    check_folders(model.checkpoint, output)
    with Compression(model, recordings, progress) as compression:
        compression.check_size(options)
        sensitivities = compression.sensitivities(options)
        if not sensitivities:
            raise CheckpointError(
                f"expected a model with tensors of {options.min_weights} weights or more; {model.name} has none: it is "
                "too small to compress"
            )
        if (share := inversions(sensitivities)) > 0.1:
            announce(f"{share:.0%} of the steps to more bits diverge more: the samples are few, and choices are noisy")
        bits = compression.choose(sensitivities, options)
        announce("writing")
        return compression.write(sensitivities, bits, output)
