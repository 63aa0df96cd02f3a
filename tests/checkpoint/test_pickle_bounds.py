"""A pickle is counted before it is read. Nothing here may be handed to `pickle.loads` but where the test says so."""

import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.torch_zip import TorchZip, check_bounds
from whispertide.errors import CheckpointError

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4).map(OrderedDict)
        | inner.map(lambda value: [value, value])
    ),
)


@quick(10)
@given(value=VALUES, protocol=st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_what_people_save_passes(value: Any, protocol: int) -> None:
    check_bounds(pickle.dumps(value, protocol))


def doubled(times: int) -> bytes:
    """A tuple that holds the same tuple twice, and so on: a few hundred bytes, and 2^times values."""
    body = b"".join(b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) + b"0" for n in range(times))
    return b"\x80\x02)q\x000" + body + b"h" + bytes([times]) + b"."


BOMBS = {
    "a memo of 2^32 places": b"\x80\x02K\x01r" + struct.pack("<I", 2**32 - 1) + b".",
    "doubled 60 times": doubled(60),
    "nested 100,000 deep": b"\x80\x02)" + b"\x85" * 100_000 + b".",
    "too many steps": b"\x80\x02](" + b"K\x01" * 400_000 + b"e.",
    "a nested key": b"\x80\x02})" + b"\x85" * 100_000 + b"K\x01s.",
}


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_bombs_are_found(bomb: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"remember|unfolds"):
        check_bounds(bomb)
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", bomb)
    with pytest.raises(CheckpointError, match="damaged"):
        TorchZip(path)


def test_a_bomb_of_ten_levels_is_what_it_seems() -> None:
    """The bombs above are pickles that Python would read."""
    check_bounds(doubled(10))
    value = pickle.loads(doubled(10))
    for _ in range(10):
        assert value[0] is value[1]
        value = value[0]
    assert value == ()


@pytest.mark.parametrize("damage", [b"", b"\x80\x02", b"\x80\x02a.", b"\x80\x02h\x05.", b"\x80\x020.", b"\x80\x02t."])
def test_damage_is_no_defect(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", damage)
    with pytest.raises(CheckpointError, match="damaged"):
        TorchZip(path)


def test_a_compressed_archive_is_refused(tmp_path: Path) -> None:
    """A thousand to one: 10 MB of file would become 10 GB of memory."""
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", bytes(50_000_000))
    assert path.stat().st_size < 100_000
    with pytest.raises(CheckpointError, match="compressed"):
        TorchZip(path)


def test_blocks_that_lie_in_one_another_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps({}))
        archive.writestr("x/data/0", bytes(1000))
        archive.filelist += [archive.getinfo("x/data/0")] * 100
    with pytest.raises(CheckpointError, match="102 blocks"):
        TorchZip(path)


def test_dimensions_of_no_whisper() -> None:
    tiny = ModelDims(80, 1500, 384, 6, 4, 51_865, 448, 384, 6, 4)
    for name in ModelDims.__dataclass_fields__:
        values = {field: getattr(tiny, field) for field in ModelDims.__dataclass_fields__} | {name: 10**9}
        with pytest.raises(CheckpointError, match=rf"expected {name} to be at most|same width"):
            ModelDims(**values)
