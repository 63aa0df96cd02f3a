"""Learned things next to a checkpoint: a toy kind comes back as it was, and everything else is refused."""

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from slow_rows import slow_but
from whispertide.checkpoint.attachments import Attachment, Kind, anywhere, find, load, path_beside, save
from whispertide.errors import CheckpointError, CheckpointNotFoundError
from whispertide_lab.compression.folder import carry_over

TOY = Kind("a toy", "toy-{variant}.npz", "whispertide train toy {model} --size {variant}")
SHAPES = {"weight": (None, 3), "mask": (2,)}
OURS, OTHERS = "a" * 64, "b" * 64
ARRAYS: dict[str, Any] = {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "mask": np.array([True, False])}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(tmp_path / "toy-2.npz", Attachment(ARRAYS, OURS, {"loss": 0.5, "epochs": [1, 2]}))
    return tmp_path / "toy-2.npz"


def checkpoint(folder: Path) -> Any:
    return SimpleNamespace(folder=folder, name="nano.en", argument="./mine", generation="greedy")


def test_what_was_saved_comes_back(path: Path) -> None:
    found = load(TOY, path, SHAPES, OURS)
    assert found.arrays.keys() == ARRAYS.keys()
    for name, values in ARRAYS.items():
        assert found.arrays[name].dtype == values.dtype
        np.testing.assert_array_equal(found.arrays[name], values)
    assert (found.content_hash, found.report) == (OURS, {"loss": 0.5, "epochs": [1, 2]})
    assert load(TOY, path, SHAPES).content_hash == OURS, "any checkpoint's, where none is named"


def test_what_cannot_be_written_leaves_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def half(file: Any, **arrays: Any) -> None:
        file.write(before[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(OSError, match="No space"):
        save(path, Attachment(ARRAYS, OTHERS))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_it_is_found_by_kind_and_variant(path: Path) -> None:
    mine = checkpoint(path.parent)
    assert find(mine, TOY, "2", instead="toys=off") == path_beside(mine, TOY, "2") == path
    with pytest.raises(CheckpointNotFoundError) as raised:
        find(mine, TOY, "3", instead="toys=off")
    for part in ("a toy of nano.en", "toy-3.npz", "`whispertide train toy ./mine --size 3`", "toys=off"):
        assert part in str(raised.value)


def test_one_of_the_same_tensors_is_found_in_the_cache_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the package's are; the one next to the checkpoint comes first, and another size or checkpoint's never."""
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    kept = {name: tmp_path / "cache" / "attachments" / name for name in ("ours", "theirs")}
    for folder, owner in zip(kept.values(), (OURS, OTHERS), strict=True):
        folder.mkdir(parents=True)
        save(folder / "toy-2.npz", Attachment(ARRAYS, owner))
    mine = checkpoint(tmp_path)
    mine.tensors_hash = OURS
    assert find(mine, TOY, "2", instead="toys=off") == kept["ours"] / "toy-2.npz"
    assert anywhere(mine, TOY, "3") is None
    save(tmp_path / "toy-2.npz", Attachment(ARRAYS, OURS))
    assert find(mine, TOY, "2", instead="toys=off") == tmp_path / "toy-2.npz"


def test_another_checkpoints_is_refused(path: Path) -> None:
    message = f"of the checkpoint {OTHERS[:12]}; .* another checkpoint .{OURS[:12]}.: make one .*`whispertide train toy"
    with pytest.raises(CheckpointError, match=message):
        load(TOY, path, SHAPES, OTHERS)
    assert load(TOY, path, SHAPES, OTHERS, OURS).content_hash == OURS, "one of several hashes"


@pytest.mark.parametrize(
    "shapes", [{"weight": (None, 3)}, {**SHAPES, "bias": ()}, {**SHAPES, "mask": (3,)}, {**SHAPES, "mask": (2, None)}]
)
def test_other_arrays_are_refused(shapes: Any, path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds mask \[2\], weight \[2, 3\]"):
        load(TOY, path, shapes, OURS)


@pytest.mark.parametrize("values", [np.array([1.0, np.nan]), np.array([1.0, np.inf]), np.array(["a", "b"])])
def test_numbers_must_be_finite(values: Any, path: Path) -> None:
    save(path, Attachment({**ARRAYS, "mask": values}, OURS))
    with pytest.raises(CheckpointError, match=r"finite numbers .*mask"):
        load(TOY, path, SHAPES, OURS)


def test_a_damaged_file_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    middle = whole.index(ARRAYS["weight"].tobytes())
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for content in (b"", b"nothing", whole[: len(whole) // 2], flipped, whole.replace(b"report", b"rapped")):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"damaged or something else .*: make it again with `whispertide"):
            load(TOY, path, SHAPES, OURS)
    with pytest.raises(CheckpointNotFoundError, match="there is none: make it with `whispertide"):
        load(TOY, path.with_name("none.npz"), SHAPES, OURS)


def test_a_report_that_is_none_is_refused(path: Path) -> None:
    content = dict(np.load(path))
    np.savez(path, **{**content, "report": np.array("[]")})
    with pytest.raises(CheckpointError, match="damaged or something else"):
        load(TOY, path, SHAPES)


def test_pickled_content_is_never_opened(path: Path) -> None:
    np.savez(path, format=1, weight=np.array([print]), mask=np.zeros(2), content_hash=OURS, report="{}")
    with pytest.raises(CheckpointError, match="damaged or something else"):
        load(TOY, path, SHAPES, OURS)


def bomb(path: Path, kind: str) -> None:
    """A small file that asks for much: to unpack it, to hold an array that it does not have, to follow its report."""
    report = "[" * 100_000 if kind == "nested" else "{}"
    pack = np.savez_compressed if kind == "compressed" else np.savez
    weight = np.zeros((10_000_000, 3), np.float32) if kind == "compressed" else ARRAYS["weight"]
    pack(path, format=1, weight=weight, mask=ARRAYS["mask"], content_hash=OURS, report=report)
    if kind == "promising":
        promised = path.read_bytes().replace(b"(2, 3), }" + b" " * 16, b"(" + b"9" * 16 + b", 3), } ")
        path.write_bytes(unchecked(promised))


def unchecked(archive: bytes) -> bytes:
    """The archive with the checksums that it should have."""
    source, target = zipfile.ZipFile(io.BytesIO(archive)), io.BytesIO()
    with zipfile.ZipFile(target, "w") as changed:
        for entry in source.infolist():
            start = entry.header_offset + 30 + sum(struct.unpack("<HH", archive[entry.header_offset + 26 :][:4]))
            changed.writestr(entry.filename, archive[start : start + entry.file_size])
    return target.getvalue()


@pytest.mark.parametrize("kind", slow_but(["compressed", "promising", "nested"], "promising", "nested"))
def test_a_file_that_asks_for_much_is_refused(path: Path, kind: str) -> None:
    bomb(path, kind)
    assert path.stat().st_size < 500_000
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="damaged or something else"):
            load(TOY, path, SHAPES, OURS)
        assert not carry_over(path, path.with_name("other.npz"), OURS, OTHERS)
        # what was asked for and not given counts there too
        assert kind == "promising" or tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_later_format_is_named(path: Path) -> None:
    np.savez(path, format=9, **ARRAYS, content_hash=OURS, report="{}")
    with pytest.raises(CheckpointError, match=r"of format 1; .* has format 9"):
        load(TOY, path, SHAPES, OURS)
