"""How far a journal has come: what is written is read, and what is damaged is none."""

from pathlib import Path

import pytest

from whispertide.server.watermark import Watermark


@pytest.fixture
def mark(tmp_path: Path) -> Watermark:
    return Watermark(tmp_path / "mark")


def test_the_newest_number_is_read_in_another_process_too(mark: Watermark) -> None:
    assert mark.read() is None
    for number in (0, 7, 2**63, 8):
        mark.write(number)
        assert Watermark(mark.path).read() == number


def test_every_number_takes_the_same_room(mark: Watermark) -> None:
    """It is written over the one before, so there is never none."""
    sizes = set()
    for number in (1, 10**15):
        mark.write(number)
        sizes.add(mark.path.stat().st_size)
    assert len(sizes) == 1


def test_a_number_that_any_byte_of_was_changed_or_lost_is_none(mark: Watermark) -> None:
    mark.write(1234)
    whole = mark.path.read_bytes()
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            mark.path.write_bytes(damaged)
            assert mark.read() is None, damaged
    mark.path.write_bytes(whole)
    assert mark.read() == 1234


def test_what_cannot_be_read_is_no_missing_number(tmp_path: Path) -> None:
    (tmp_path / "mark").mkdir()
    with pytest.raises(OSError, match="mark"):
        Watermark(tmp_path / "mark").read()
