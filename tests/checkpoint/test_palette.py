from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from whispertide.checkpoint.palette import BITS, Palettised, packed_length, places_of, unpack
from whispertide_lab.compression.packing import gaps_of, pack


@given(st.sampled_from(BITS), st.data())
def test_packed_indices_come_back(bits: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(0, (1 << bits) - 1), max_size=100))
    packed = pack(np.array(values, np.uint8), bits)
    assert packed.dtype == np.uint8
    assert len(packed) == packed_length(len(values), bits)
    assert unpack(packed, bits, len(values)).tolist() == values


def test_indices_lie_where_the_format_says() -> None:
    """lab/docs/compression.md: units of 24 bits, little-endian, the first index in the lowest bits."""
    assert pack(np.array([1, 2, 3, 4]), 6).tolist() == [0b10_000001, 0b0011_0000, 0b000100_00]
    assert pack(np.array([5]), 8).tolist() == [5, 0, 0]


@given(st.sets(st.integers(0, 3000)))
def test_places_come_back(places: set[int]) -> None:
    rising = np.array(sorted(places), np.int64)
    np.testing.assert_array_equal(places_of(gaps_of(rising)), rising)


def tensor() -> Palettised:
    """[3, 2]: two palettes of two entries, an outlier at the last place."""
    return Palettised(
        shape=(3, 2),
        bits=1,
        rows=2,
        palettes=np.array([[1, 2], [3, 4]], np.float16),
        indices=pack(np.array([0, 1, 1, 0, 1, 0]), 1),
        outliers=np.array([9], np.float16),
        gaps=gaps_of(np.array([5])),
    )


def test_values() -> None:
    found = tensor()
    found.check()
    assert found.values().tolist() == [[1, 2], [2, 1], [4, 9]]
    assert found.values().dtype == np.float16
    assert found.nbytes == 8 + 3 + 2 + 1


@each_row(
    ("change", "message"),
    [
        ({"bits": 5}, "5 bits"),
        ({"bits": 2}, "palettes of shape"),
        ({"rows": 0}, "0 rows"),
        ({"rows": 1}, "palettes of shape"),
        ({"shape": (3, 2000)}, "bytes of indices"),
        ({"indices": np.zeros(6, np.uint8)}, "bytes of indices"),
        ({"gaps": gaps_of(np.array([6]))}, "an outlier at 6 of 6"),
        ({"gaps": gaps_of(np.array([1, 2]))}, "1 outliers with 2 places"),
        ({"outliers": np.array([np.inf], np.float16)}, "not finite numbers"),
        ({"palettes": np.full((2, 2), np.nan, np.float16)}, "not finite numbers"),
    ],
)
def test_parts_that_do_not_fit(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(tensor(), **change).check()  # type: ignore[arg-type]
