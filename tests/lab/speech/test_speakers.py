import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from whispertide.errors import CorpusError
from whispertide.types import SAMPLE_RATE
from whispertide_lab.speech import festival, speakers
from whispertide_lab.speech.manners import Manner
from whispertide_lab.speech.reading import read
from whispertide_lab.speech.speakers import check_installed, open_speaker
from whispertide_lab.speech.voices import Spoken

FESTIVAL_VOICES = {"festival:kdl": "english/ked_diphone", "festival:slt": "us/cmu_us_slt_arctic_hts"}


def installed(voice: str) -> bool:
    kind = voice.partition(":")[0]
    there = kind != "festival" or Path("/usr/share/festival/voices", FESTIVAL_VOICES[voice]).is_dir()
    return kind == "espeak-ng" or (there and shutil.which(kind) is not None)


def need(voice: str) -> None:
    if not installed(voice):
        pytest.skip(f"{voice} is not installed")


def say(voice: str, text: str, rate: float = 1.0, pitch: float = 1.0, melody: float = 0.0) -> Spoken:
    need(voice)
    with open_speaker(Manner(voice, rate, pitch, melody)) as speak:
        said = speak(text)
    assert said is not None
    return said


@pytest.mark.parametrize("voice", ["espeak-ng:en-us+m1", "flite:kal16", "festival:kdl", "festival:slt"])
def test_written_words_have_the_times_of_what_is_said(voice: str) -> None:
    sentence = read("It's 3:30 p.m., Dr. Smith, and it costs $12.50.", np.random.RandomState(0))
    assert sentence is not None
    said = say(voice, sentence.said)
    spans = sentence.spans(said.words)
    assert len(spans) == len(sentence.written.split())
    assert all(start < end for start, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    energy = said.samples.astype(float) ** 2
    inside = np.zeros(len(energy), bool)
    for start, end in spans:
        inside[start:end] = True
        assert energy[start:end].mean() > 0.01 * energy.mean()
    assert energy[inside].sum() > 0.97 * energy.sum()
    length = {word: end - start for word, (start, end) in zip(sentence.written.split(), spans, strict=True)}
    assert length["$12.50."] > 2 * length["and"]


@pytest.mark.parametrize("voice", ["espeak-ng:en-us", "flite:kal16", "flite:rms", "festival:kdl", "festival:slt"])
def test_rate_and_pitch_are_heard(voice: str) -> None:
    text = "The doctor walked to the old river in the morning."
    own, fast, high = say(voice, text), say(voice, text, rate=1.3), say(voice, text, pitch=1.3)
    assert len(fast.samples) < 0.9 * len(own.samples)
    assert 1.12 < hertz(high) / hertz(own) < 1.6


def hertz(said: Spoken) -> float:
    """The median pitch of the loud parts, by autocorrelation."""
    found = []
    for at in range(0, len(said.samples) - 1024, 1024):
        part = said.samples[at : at + 1024].astype(float)
        part -= part.mean()
        likeness = np.correlate(part, part, "full")[1023:]
        period = 40 + int(likeness[40:300].argmax())
        if part.std() > 0.3 * said.samples.std() and likeness[period] > 0.5 * likeness[0]:
            found.append(SAMPLE_RATE / period)
    return float(np.median(found))


def test_words_that_espeak_does_not_tell_apart_are_kept() -> None:
    text = "There was a cat."
    said = say("espeak-ng:en-us", text)
    assert not said.exact
    assert len(said.words) == 4
    assert all(start < end for start, end in said.words)
    assert say("espeak-ng:en-us", "He met a cat.").exact


def test_manners_do_not_leak_into_the_next_speaker() -> None:
    for voice in ("espeak-ng:en-us", "flite:kal16"):
        first = say(voice, "The old man came home.")
        say(voice, "The old man came home.", rate=0.8, pitch=1.4, melody=1.0)
        again = say(voice, "The old man came home.")
        assert abs(len(again.samples) / len(first.samples) - 1) < 0.03  # espeak-ng is not quite even
        assert abs(hertz(again) / hertz(first) - 1) < 0.06


def test_festival_takes_quotes_and_backslashes_as_text() -> None:
    said = say("festival:kdl", r'He said "no" \ again.')
    assert len(said.samples) > SAMPLE_RATE // 2


def test_a_missing_festival_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CorpusError, match="apt-get install festival festvox-kdlpc16k festvox-us-slt-hts"):
        check_installed(("festival:kdl",))


def test_a_festival_that_ends_at_once_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "festival"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusError, match="festival ended"):
        festival.FestivalSpeaker("kdl", rate=1.0)


def test_a_missing_festival_voice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    need("festival:kdl")
    monkeypatch.setattr(festival.FestivalSpeaker, "_ask", _asking_for_another_voice(festival.FestivalSpeaker._ask))
    with pytest.raises(CorpusError, match="apt-get install festvox-kdlpc16k"):
        festival.FestivalSpeaker("kdl", rate=1.0)


def _asking_for_another_voice(
    ask: Callable[[festival.FestivalSpeaker, str], None],
) -> Callable[[festival.FestivalSpeaker, str], None]:
    return lambda self, command: ask(self, command.replace("whispertide_kdl", "voice_not_there"))


def test_only_what_is_asked_for_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(speakers, "espeak_version", lambda: "1.51")
    check_installed(("espeak-ng:en-us",))
    with pytest.raises(CorpusError, match="flite"):
        check_installed(("espeak-ng:en-us", "flite:slt"))
