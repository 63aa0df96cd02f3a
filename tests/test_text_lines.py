from pathlib import Path

import pytest

from whispertide.text_lines import read_lines


def test_comments_and_empty_lines_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "terms.txt"
    file.write_text("# people\nVinh Phuc  # our host\n\n  Okonkwo \nC#\n\t# more\n", encoding="utf-8-sig")
    assert read_lines(file) == ["Vinh Phuc", "Okonkwo", "C#"]


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sound").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnicodeDecodeError):
        read_lines(tmp_path / "sound")
