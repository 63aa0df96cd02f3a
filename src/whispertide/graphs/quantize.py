"""Weights to 8 bits: per output column for dynamic int8, per block for weight-only int8. Symmetric, round to
nearest.
"""

from typing import Any

import numpy as np

from whispertide.types import FloatArray

_LIMIT = 127.0


def _scales(peak: FloatArray) -> FloatArray:
    # an all-zero column or block has nothing to scale
    return np.where(peak > 0, peak / _LIMIT, 1.0).astype(np.float32)


def per_column_int8(weight: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], FloatArray]:
    """Quantise [in, out] with one scale per output column.

    Returns int8 [in, out] and float32 scales [out]; `int8 * scales` approximates the weight within half a step.
    """
    weight = np.asarray(weight, np.float32)
    scales = _scales(np.abs(weight).max(axis=0))
    return np.rint(weight / scales).astype(np.int8), scales


def blockwise_int8(weight: np.ndarray[Any, Any], block: int) -> tuple[np.ndarray[Any, Any], FloatArray]:
    """Quantise [out, in] with one scale per `block` consecutive inputs, in the layout of ONNX Runtime's MatMulNBits.

    Returns uint8 [out, blocks, block] with zero point 128 (the tail of the last block is 128, that is zero) and
    float32 scales [out, blocks].
    """
    weight = np.asarray(weight, np.float32)
    rows, columns = weight.shape
    blocks = -(-columns // block)
    padded = np.zeros((rows, blocks * block), np.float32)
    padded[:, :columns] = weight
    shaped = padded.reshape(rows, blocks, block)
    scales = _scales(np.abs(shaped).max(axis=2))
    # From 1 to 255: a symmetric range leaves one value unused.
    data = np.rint(shaped / scales[:, :, None]) + 128.0
    return data.astype(np.uint8), scales
