import shutil
from ctypes.util import find_library

import pytest

from speech_checks import assert_times_fit
from whispertide.errors import CorpusError
from whispertide_lab.speech.flite import FliteSpeaker, flite_version, installed_flite

needs_flite = pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")


@needs_flite
@pytest.mark.parametrize("voice", ["rms", "slt", "kal"])
def test_word_times_are_those_of_the_sound(voice: str) -> None:
    spoken = FliteSpeaker(voice, stretch=1.1).speak(text := "She read the book of the year.")
    assert spoken is not None
    assert_times_fit(spoken, text)


@needs_flite
def test_a_written_word_of_two_spoken_ones_is_one() -> None:
    spoken = FliteSpeaker("rms", stretch=1.0).speak("It's cold.")
    assert spoken is not None
    assert len(spoken.words) == 2


@needs_flite
def test_stretch_slows_down() -> None:
    slow, fast = (FliteSpeaker("rms", stretch=stretch).speak("He came home.") for stretch in (1.4, 1.0))
    assert slow is not None
    assert fast is not None
    assert len(slow.samples) > 1.2 * len(fast.samples)


def test_a_missing_tool_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CorpusError, match="apt-get install flite"):
        flite_version()


def test_a_missing_library_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide_lab.speech.flite.find_library", lambda name: "libnot-there.so.9")
    with pytest.raises(CorpusError, match="apt-get install flite"):
        FliteSpeaker("slt", stretch=1.0)


@needs_flite
def test_flite_counts_as_installed_with_all_of_its_voices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed_flite() == flite_version()

    def without_kal(name: str) -> str | None:
        return "libnot-there.so.9" if name == "flite_cmu_us_kal" else find_library(name)

    monkeypatch.setattr("whispertide_lab.speech.flite.find_library", without_kal)
    assert installed_flite() is None


def test_without_its_program_flite_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert installed_flite() is None
