from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from corpus_layouts import sound
from whispertide.errors import CorpusError
from whispertide_lab.speech.cached import CachedCorpus, cached_corpus, write_recording
from whispertide_lab.speech.utterance import RefWord

Words = tuple[tuple[str, int, int], ...]


class Maker:
    """Makes three recordings of a tone and counts what it makes."""

    def __init__(self, folder: Path, words: Words = (("one", 10, 400), ("two", 400, 900)), fail: str = "") -> None:
        self.folder, self.words, self.fail = folder, words, fail
        self.made: list[str] = []

    def make(self, name: str) -> None:
        if name == self.fail:
            raise CorpusError("no power")
        self.made.append(name)
        write_recording(self.folder, name, sound(1000 + ord(name)), self.words, f"voice-{name}")

    def corpus(self, version: str = "1") -> CachedCorpus:
        makers: dict[str, Callable[[], None]] = {name: partial(self.make, name) for name in "abc"}
        return cached_corpus("tones", version, self.folder, makers)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    first, *_ = utterances = list(Maker(tmp_path).corpus().utterances())
    assert [utterance.id for utterance in utterances] == ["a", "b", "c"]
    assert first.words == (RefWord("one", 10, 400), RefWord("two", 400, 900))
    assert first.exact_times
    assert first.group == "voice-a"
    assert first.seconds == (1000 + ord("a")) / 16000
    assert np.array_equal(np.rint(first.audio() * 32768), sound(1000 + ord("a")))


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    hash_before = Maker(tmp_path).corpus().hash
    again = Maker(tmp_path)
    assert again.corpus().hash == hash_before
    assert again.made == []


def test_making_goes_on_after_a_failure(tmp_path: Path) -> None:
    broken = Maker(tmp_path, fail="b")
    with pytest.raises(CorpusError, match="no power"):
        broken.corpus()
    rest = Maker(tmp_path)
    assert rest.corpus().hash == Maker(tmp_path / "whole").corpus().hash
    assert "b" in rest.made
    assert "a" not in rest.made
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("damage", ["cut audio", "no audio", "cut reference", "other reference"])
def test_damaged_recordings_are_made_again(tmp_path: Path, damage: str) -> None:
    hash_before = Maker(tmp_path).corpus().hash
    audio, reference = tmp_path / "b.flac", tmp_path / "b.json"
    if damage == "cut audio":
        audio.write_bytes(audio.read_bytes()[:-20])
    elif damage == "no audio":
        audio.unlink()
    elif damage == "cut reference":
        reference.write_text(reference.read_text()[:30])
    else:
        reference.write_text("[]")
    again = Maker(tmp_path)
    assert again.corpus().hash == hash_before
    assert again.made == ["b"]


def test_the_hash_is_over_audio_references_and_version(tmp_path: Path) -> None:
    hashes = {
        Maker(tmp_path / "0").corpus().hash,
        Maker(tmp_path / "1").corpus("2").hash,
        Maker(tmp_path / "2", words=(("one", 10, 401), ("two", 401, 900))).corpus().hash,
        Maker(tmp_path / "3", words=(("One", 10, 400), ("two", 400, 900))).corpus().hash,
    }
    assert len(hashes) == 4
    (tmp_path / "4").mkdir()
    other = Maker(tmp_path / "4")
    for name in "abc":
        samples = sound(1000 + ord(name))
        samples[500] += name == "b"
        write_recording(other.folder, name, samples, other.words, f"voice-{name}")
    assert other.corpus().hash not in hashes
    assert other.made == []
    assert all(len(value) == 12 for value in hashes)


def test_a_maker_that_makes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="not whole"):
        cached_corpus("nothing", "1", tmp_path / "n", {"a": lambda: None})


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match="cannot be kept"):
        Maker(tmp_path / "file" / "below").corpus()


def test_it_says_on_standard_error_what_was_made_and_how_fast(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Maker(tmp_path).corpus()
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "made tones: 3 recordings" in captured.err
    assert "real time" in captured.err
    Maker(tmp_path).corpus()
    assert capfd.readouterr().err == ""
