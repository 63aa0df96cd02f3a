import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from lab.evaluation.corpora.other_machine import hash_elsewhere
from whispertide.errors import CorpusError
from whispertide.lab.speech import talks
from whispertide.lab.speech.talks import TALKS, TalkPlan, assemble, open_talks, talk_plan
from whispertide.lab.speech.text import is_test_sentence
from whispertide.lab.speech.voices import HELD_OUT, TRAINED, Spoken, Voice

needs_voices = pytest.mark.skipif(
    shutil.which("espeak-ng") is None or shutil.which("flite") is None, reason="espeak-ng or flite is not installed"
)


class Metronome:
    """Says each word as 100 ms of a constant, with 20 ms between; refuses every third sentence."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.asked = 0

    def speak(self, text: str) -> Spoken | None:
        self.asked += 1
        if self.asked % 3 == 0:
            return None
        self.said.append(text)
        count = len(text.split())
        samples = np.zeros(count * 1920, np.int16)
        for k in range(count):
            samples[k * 1920 : k * 1920 + 1600] = 1000
        return Spoken(samples, tuple((k * 1920, k * 1920 + 1600) for k in range(count)))


def plan(words: int = 60, number: int = 0, seed: int = 0) -> TalkPlan:
    return TalkPlan(number, seed, Voice("flite", "slt"), words, 0.5)


def test_the_plans_promise_40_000_words_half_of_them_in_voices_never_trained_on() -> None:
    plans = [talk_plan(0, number) for number in range(TALKS)]
    assert sum(each.words for each in plans) >= 40_000
    held_out = [each for each in plans if each.voice in HELD_OUT]
    assert len(held_out) == TALKS / 2
    assert 0.45 < sum(each.words for each in held_out) / sum(each.words for each in plans) < 0.55
    assert not set(HELD_OUT) & set(TRAINED)
    assert {each.voice for each in plans} == {*HELD_OUT, *TRAINED}


def test_word_times_point_at_the_words_in_the_talk() -> None:
    samples, words = assemble(plan(), Metronome())
    assert samples.dtype == np.int16
    inside = np.zeros(len(samples), bool)
    for _, start, end in words:
        inside[start:end] = True
    assert np.all(samples[inside] == samples.max())
    assert np.all(samples[~inside] == 0)
    assert samples.max() == round(0.7 * 32767)


def test_the_text_is_that_of_the_sentences_in_order_and_all_of_it_is_test_text() -> None:
    speaker = Metronome()
    _, words = assemble(plan(), speaker)
    assert " ".join(text for text, _, _ in words) == " ".join(speaker.said)
    assert all(is_test_sentence(sentence) for sentence in speaker.said)
    assert len(words) >= 60


def test_pauses_between_sentences_and_longer_ones_between_paragraphs() -> None:
    _, words = assemble(plan(words=600), Metronome())
    pairs = pairwise(words)
    pauses = sorted((b[1] - a[2]) / 16000 for a, b in pairs if a[0][-1] in ".?")
    assert pauses[0] >= 0.25
    assert pauses[-1] <= 3.1
    assert any(pause > 1.2 for pause in pauses)
    assert sum(pause < 1.0 for pause in pauses) > 2 * sum(pause > 1.2 for pause in pauses)


def test_the_seed_decides() -> None:
    def spoken(seed: int, number: int) -> tuple[list[tuple[str, int, int]], bytes]:
        samples, words = assemble(plan(seed=seed, number=number), Metronome())
        return words, samples.tobytes()

    assert spoken(1, 0) == spoken(1, 0)
    assert spoken(1, 0) != spoken(2, 0)
    assert spoken(1, 0) != spoken(1, 1)


@needs_voices
def test_another_seed_gives_another_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talks, "QUICK_TALKS", 1)

    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    assert open_talks(quick=True, seed=1).hash != open_talks(quick=True).hash


@needs_voices
def test_the_hash_is_the_same_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made here, and made here without vector instructions; where the synthesizers are those of one, as there, too."""
    monkeypatch.setattr(talks, "QUICK_TALKS", 2)
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "here"))
    here = open_talks(quick=True)
    made = "setattr(talks, 'QUICK_TALKS', 2) or talks.open_talks(quick=True).hash"
    assert hash_elsewhere(made, tmp_path / "there") == here.hash
    if "espeak-ng1.51-flite2.2-current" in here.name:
        assert here.hash == "cd7c52022d89"


@needs_voices
def test_quick_talks_are_whole_and_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    corpus = open_talks(quick=True)
    utterances = list(corpus.utterances())
    assert "espeak-ng" in corpus.name
    assert "flite" in corpus.name
    assert 120 < sum(utterance.seconds for utterance in utterances) < 300
    for utterance in utterances:
        audio = utterance.audio()
        assert utterance.exact_times
        assert len(audio) == round(utterance.seconds * 16000)
        starts = [word.start for word in utterance.words if word.start is not None]
        assert starts == sorted(starts)
        first, last = utterance.words[0], utterance.words[-1]
        assert first.start is not None
        assert last.end is not None
        assert last.end <= len(audio)
        assert np.abs(audio[: first.start - 800]).max() < 0.02
        assert np.abs(audio[first.start : first.end]).max() > 0.02


@needs_voices
def test_a_failing_voice_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr(talks, "__name__", "whispertide.lab.evaluation.corpora.nowhere")
    with pytest.raises(CorpusError, match=r"talk-0\d in the voice \S+ could not be made: .*nowhere"):
        open_talks(quick=True)
