"""Caches of several searches in one tensor: whose rows and columns are whose. Knows nothing of graphs or threads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from whispertide.model.cache import KVCache
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class Place:
    """Where a search's cache lies: `rows` rows of a larger one, the slab, from `start` on; of its columns those in
    `columns` [columns].
    """

    slab: KVCache
    start: int
    rows: int
    columns: npt.NDArray[np.bool_]

    @property
    def length(self) -> int:
        """Positions in the cache."""
        return int(np.count_nonzero(self.columns))

    def rewound(self, length: int) -> Self:
        """Cut back to its first `length` positions."""
        columns = self.columns.copy()
        columns[np.flatnonzero(columns)[length:]] = False
        return replace(self, columns=columns)

    def read(self, tensor: FloatArray) -> FloatArray:
        """The search's own part of one of the slab's tensors, [rows, heads, length, 64]."""
        return tensor[self.start : self.start + self.rows][:, :, self.columns]

    def copied(self) -> KVCache:
        """The same cache by itself."""
        import onnxruntime

        def own(tensors: Sequence[Any]) -> tuple[Any, ...]:
            parts = (np.ascontiguousarray(self.read(tensor.numpy())) for tensor in tensors)
            return tuple(onnxruntime.OrtValue.ortvalue_from_numpy(part) for part in parts)

        return KVCache(own(self.slab.keys), own(self.slab.values), self.length)


def one_below_the_other(parts: Sequence[FloatArray], width: int) -> FloatArray:
    """Caches [rows, heads, length, 64] as one of `width` columns, each from its first column on."""
    heads, size = parts[0].shape[1], parts[0].shape[3]
    whole = np.zeros((sum(map(len, parts)), heads, width, size), parts[0].dtype)
    start = 0
    for part in parts:
        whole[start : start + len(part), :, : part.shape[2]] = part
        start += len(part)
    return whole
