from pathlib import Path

import pytest

from whispertide.checkpoint.json_file import read_json
from whispertide.errors import CheckpointError, CheckpointNotFoundError


def test_an_object_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"d_model": 8}')
    assert read_json(tmp_path / "config.json") == {"d_model": 8}


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"expected config.json in"):
        read_json(tmp_path / "config.json")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="it is not a file, but a device or a folder"):
        read_json(tmp_path)


def test_json_that_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"expected a JSON object in .*; got list"):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize("content", [b'{"a":' * 100_000, b"[" * 100_000, b'{"a":"' + b"x" * 9_000_000 + b'"}'])
def test_json_of_no_checkpoint(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"not valid JSON|at most"):
        read_json(path)
