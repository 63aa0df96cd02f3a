"""Blocks of ggml: as the `gguf` package of ggml-org (0.19.0) reads them, and by a plain reading of the format."""

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from whispertide.checkpoint.ggml_blocks import BLOCK, FORMATS, BlockFormat, weights_of

# One block each, scale 0.5 and, where there is one, offset -1.25; and its first weights by `gguf.quants.dequantize`.
OF_GGUF = {
    "q4_0": ("0038a446ed02281a4fa3cc15b39d2bdca4fb", [-2.0, -1.0, 2.5, -3.0, 0.0, 1.0, 3.5, -2.5, 2.0, -1.5]),
    "q4_1": ("003800bd0018ac7d87e366c8f353eff8979cb5ff", [-1.25, 2.75, 4.75, 5.25, 2.25, 0.25, 1.75, 2.75, 0.25, 0.25]),
    "q5_0": ("00383e023f4c90c56477dc3788ed47b8d9feffc0e92b", [-8.0, 2.5, 2.0, 3.5, 6.0, 3.5, -4.0, -1.5, -4.5, 4.0]),
    "q5_1": (
        "003800bdd14e04fad0a8606ed10b8ba4a642f9e43fa06ee5",
        [6.75, 2.75, -1.25, 5.75, 7.25, 4.25, 12.25, 8.75, 1.75, 7.75],
    ),
    "q8_0": (
        "0038752e88d402c5c6a69823f3489d056e439bd38d0eea46a1569d5d6a95d052cdcc",
        [58.5, 23.0, -60.0, -22.0, 1.0, -29.5, -29.0, -45.0, -52.0, 17.5],
    ),
}
NAMED = {form.name: form for form in FORMATS.values()}


@each_row("name", OF_GGUF)
def test_a_block_is_what_ggml_makes_of_it(name: str) -> None:
    stored, expected = OF_GGUF[name]
    weights = weights_of(np.frombuffer(bytes.fromhex(stored), np.uint8), NAMED[name])
    assert weights.shape == (BLOCK,)
    assert weights[:10].tolist() == expected


def plain(block: bytes, kind: BlockFormat) -> list[float]:
    """The weights of a block, one after the other, as ggml-quants.c has them."""
    (scale,), at = struct.unpack("<e", block[:2]), 2
    least = 0.0
    if kind.offset:
        (least,), at = struct.unpack("<e", block[2:4]), 4
    if kind.bits == 8:
        return [scale * number for number in struct.unpack("32b", block[at:])]
    fifth = 0
    if kind.bits == 5:
        (fifth,), at = struct.unpack("<I", block[at : at + 4]), at + 4
    middle = 0 if kind.offset else 2 ** (kind.bits - 1)
    weights = []
    for index in range(32):
        byte = block[at + index % 16]
        number = (byte & 15 if index < 16 else byte >> 4) | (fifth >> index & 1) << 4
        weights.append(scale * (number - middle) + least)
    return weights


@given(kind=st.sampled_from(list(FORMATS.values())), data=st.data())
def test_any_blocks(kind: BlockFormat, data: st.DataObject) -> None:
    numbers = st.floats(-4, 4, width=16)
    heads = [struct.pack("<e", data.draw(numbers)) for _ in range(1 + kind.offset)]
    rest = st.binary(min_size=kind.block_bytes - 2 * len(heads), max_size=kind.block_bytes - 2 * len(heads))
    blocks = [b"".join(heads) + data.draw(rest) for _ in range(3)]
    weights = weights_of(np.frombuffer(b"".join(blocks), np.uint8), kind)
    np.testing.assert_allclose(weights, [weight for block in blocks for weight in plain(block, kind)], rtol=1e-6)
    assert weights.dtype == np.float32
