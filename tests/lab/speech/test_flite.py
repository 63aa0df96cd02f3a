import shutil

import pytest

from lab.evaluation.corpora.speech_checks import assert_times_fit
from whispertide.errors import CorpusError
from whispertide.lab.speech.flite import FliteSpeaker, flite_version

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
    with pytest.raises(CorpusError, match="apt-get install espeak-ng flite"):
        flite_version()


def test_a_missing_library_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.lab.speech.flite.find_library", lambda name: "libnot-there.so.9")
    with pytest.raises(CorpusError, match="apt-get install espeak-ng flite"):
        FliteSpeaker("slt", stretch=1.0)
