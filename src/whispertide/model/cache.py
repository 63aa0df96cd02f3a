"""The decoder's self-attention keys and values, of one search or of several in one tensor.

The arrays are never written to, so copying a cache is free. Knows nothing of graphs or threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint import ModelDims
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class KVCache:
    """Per layer one runtime tensor [rows, heads, length, 64] of keys and one of values."""

    keys: tuple[Any, ...]
    values: tuple[Any, ...]
    length: int

    @classmethod
    def empty(cls, dims: ModelDims) -> Self:
        """One row of length 0."""
        import onnxruntime

        heads = dims.n_text_head
        nothing = np.empty((1, heads, 0, dims.n_text_state // heads), np.float32)
        tensors = tuple(onnxruntime.OrtValue.ortvalue_from_numpy(nothing) for _ in range(dims.n_text_layer))
        return cls(tensors, tensors, 0)

    @property
    def rows(self) -> int:
        """Rows in the cache."""
        return int(self.keys[0].shape()[0])

    def rewound(self, length: int, keep: Sequence[int] = ()) -> Self:
        """This cache cut back to its first `length` positions, and those at the places `keep` after them."""
        import onnxruntime

        if not 0 <= length <= self.length:
            raise ValueError(f"expected to keep 0 to {self.length} cached positions; got {length}")
        if length == self.length:
            return self

        def cut(tensor: Any) -> Any:
            whole = tensor.numpy()
            kept = np.concatenate([whole[:, :, :length], whole[:, :, length:][:, :, list(keep)]], axis=2)
            return onnxruntime.OrtValue.ortvalue_from_numpy(kept)

        return type(self)(tuple(map(cut, self.keys)), tuple(map(cut, self.values)), length + len(keep))


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

    def rewound(self, length: int, keep: Sequence[int] = ()) -> Self:
        """Cut back to its first `length` positions, and those at the places `keep` after them."""
        columns = self.columns.copy()
        after = np.flatnonzero(columns)[length:]
        columns[np.delete(after, list(keep))] = False
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
