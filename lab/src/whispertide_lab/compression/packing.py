"""Indices and places as bytes: what `whispertide.checkpoint.palette` unpacks."""

from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint.palette import FAR, UNIT_BITS, UNIT_BYTES, Bytes, Places


def pack(indices: npt.NDArray[Any], bits: int) -> Bytes:
    """Pack indices below 2 ** bits [n] into bytes, as `palette.unpack` reads them."""
    per_unit = UNIT_BITS // bits
    padded = np.zeros(-(-len(indices) // per_unit) * per_unit, np.uint32)
    padded[: len(indices)] = indices
    units = np.zeros(len(padded) // per_unit, np.uint32)
    for at in range(per_unit):
        units |= padded[at::per_unit] << np.uint32(at * bits)
    parts = [(units >> np.uint32(8 * at)).astype(np.uint8) for at in range(UNIT_BYTES)]
    return np.stack(parts, axis=1).reshape(-1)


def gaps_of(places: Places) -> Bytes:
    """Encode rising positions in a flat tensor [n] as `palette.places_of` reads them."""
    before = np.diff(places, prepend=-1) - 1
    ends = np.cumsum(before // FAR + 1)
    found = np.full(ends[-1] if len(ends) else 0, FAR, np.uint8)
    # The full bytes before it say 255 each, so this one says the rest, which is below 255.
    found[ends - 1] = before % FAR
    return found
