"""The decoder's self-attention keys and values. The arrays are never written to, so copying a cache is free."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from whispertide.checkpoint import ModelDims


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

    def rewound(self, length: int) -> Self:
        """This cache cut back to its first `length` positions."""
        import onnxruntime

        if not 0 <= length <= self.length:
            raise ValueError(f"expected to keep 0 to {self.length} cached positions; got {length}")
        if length == self.length:
            return self
        cut = [
            onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(tensor.numpy()[:, :, :length]))
            for tensor in (*self.keys, *self.values)
        ]
        layers = len(self.keys)
        return type(self)(tuple(cut[:layers]), tuple(cut[layers:]), length)
