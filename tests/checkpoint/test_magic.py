"""Files are called what they are, by their first bytes."""

from pathlib import Path

from each_row import each_row
from whispertide.checkpoint.magic import GGML, describe, is_ggml


@each_row(
    ("start", "name"),
    [
        (GGML + b"more", "ggml file"),
        (b"GGUF\x03", "GGUF file"),
        (b"PK\x03\x04", "zip file"),
        (b"\x06\0\0\0\x0c\0", "CTranslate2"),
        (b"\x89HDF\r\n", "HDF5"),
        (b"version https://git-lfs", "git LFS"),
        (b"Hello", "bytes b'Hell'"),
        (b"", "bytes b''"),
    ],
)
def test_a_file_by_its_start(start: bytes, name: str) -> None:
    assert name in describe(start)


def test_a_ggml_file_is_told_from_others(tmp_path: Path) -> None:
    for content, expected in ((GGML + bytes(9), True), (b"GGUF" + bytes(9), False), (GGML[:3], False)):
        (tmp_path / "file").write_bytes(content)
        assert is_ggml(tmp_path / "file") is expected
    assert not is_ggml(tmp_path)
    assert not is_ggml(tmp_path / "nowhere")
