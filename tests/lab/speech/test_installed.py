import pytest

from whispertide.errors import CorpusError
from whispertide_lab.speech import installed as module
from whispertide_lab.speech.installed import installed
from whispertide_lab.speech.voices import HELD_OUT, TRAINED


def pretend(monkeypatch: pytest.MonkeyPatch, flite: str | None) -> None:
    monkeypatch.setattr(module, "espeak_version", lambda: "1.52.0")
    monkeypatch.setattr(module, "installed_flite", lambda: flite)


def test_with_flite_every_voice_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "2.2-current")
    here = installed()
    assert here.versions == "espeak-ng1.52.0-flite2.2-current"
    assert (here.trained, here.held_out) == (TRAINED, HELD_OUT)


def test_without_flite_its_voices_are_left_out_and_the_name_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, None)
    here = installed()
    assert here.versions == "espeak-ng1.52.0"
    assert {voice.synthesizer for voice in (*here.trained, *here.held_out)} == {"espeak-ng"}
    assert set(here.trained) < set(TRAINED)
    assert len(here.held_out) == len(HELD_OUT) - 1


def test_without_espeak_nothing_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise CorpusError("no espeak-ng")

    monkeypatch.setattr(module, "espeak_version", missing)
    with pytest.raises(CorpusError, match="no espeak-ng"):
        installed()
