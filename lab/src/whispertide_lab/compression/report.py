"""What compression did to each tensor: a table, and JSON next to the compressed weights."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from whispertide_lab.compression.divergence import Divergence
from whispertide_lab.compression.sensitivity import UNCHANGED, Sensitivity

REPORT = "compression.json"
LEGEND = "KL and MSE: of the whole model when this tensor alone is so (nats per token; squared error of the encoder)."


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor. `kl` and `mse` are those of a model in which it alone is compressed."""

    name: str
    weights: int
    bits: int
    nbytes: int
    kl: float
    mse: float


@dataclass(frozen=True, slots=True)
class Report:
    """One compressed checkpoint.

    original    content hash of the checkpoint that was compressed
    size        bytes of the file of weights
    half_size   bytes of the original's weights as float16
    rows        the tensors that may be palettised, by name; the others are float16
    divergence  of the whole compressed model, measured
    inversions  share of steps to more bits after which a divergence is larger; much above 0 they are too noisy
    """

    name: str
    original: str
    size: int
    half_size: int
    rows: tuple[Row, ...]
    divergence: Divergence
    inversions: float

    @property
    def share(self) -> float:
        """Of float16."""
        return self.size / self.half_size

    def to_json(self) -> dict[str, Any]:
        """For `compression.json`."""
        return {**asdict(self), "share": self.share, "rows": [asdict(row) for row in self.rows]}

    def cells(self) -> Iterator[tuple[str, ...]]:
        """The table: tensor, weights, bits, bytes, share of float16, KL, MSE."""
        for row in self.rows:
            bits = "fp16" if row.bits == UNCHANGED else str(row.bits)
            share = f"{row.nbytes / (2 * row.weights):.2f}"
            yield row.name, str(row.weights), bits, str(row.nbytes), share, f"{row.kl:.2e}", f"{row.mse:.2e}"

    def summary(self) -> str:
        """The whole file in a sentence."""
        return (
            f"{self.name}: {self.size / 1e6:.2f} MB, {self.share:.3f} of fp16 ({self.half_size / 1e6:.2f} MB); "
            f"whole model: KL {self.divergence.kl:.2e}, MSE {self.divergence.mse:.2e}"
        )


COLUMNS = ("tensor", "weights", "bits", "bytes", "of fp16", "KL", "MSE")


def row_of(one: Sensitivity, bits: int) -> Row:
    """A tensor at these bits."""
    option = one.at(bits)
    return Row(one.name, one.weights, bits, option.nbytes, option.kl, option.mse)
