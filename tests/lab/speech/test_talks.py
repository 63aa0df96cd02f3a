import platform
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from other_machine import hash_elsewhere
from whispertide.errors import CorpusError
from whispertide.types import SAMPLE_RATE
from whispertide_lab.speech import talks
from whispertide_lab.speech.flite import installed_flite
from whispertide_lab.speech.talks import TALKS, TalkPlan, assemble, open_talks, talk_plan
from whispertide_lab.speech.text import is_test_sentence
from whispertide_lab.speech.utterance import Beginnings
from whispertide_lab.speech.voices import HELD_OUT, TRAINED, Spoken, Voice


@pytest.fixture
def without_flite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here and in the processes that make the talks."""
    monkeypatch.setenv("PATH", "")


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


def plan(words: int = 60, number: int = 0, seed: int = 0, samples: int | None = None) -> TalkPlan:
    return TalkPlan(number, seed, Voice("flite", "slt"), words, 0.5, samples)


# By the versions of the synthesizers: two quick talks of seed 0.
HASHES = {"espeak-ng1.52.0": "0ef4742b1056", "espeak-ng1.52.0-flite2.2-current": "3253cb139673"}


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
    assert samples.max() == 700


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


@pytest.mark.parametrize("length", [1, 20_000, 300_000])
def test_a_beginning_ends_with_the_sentence_that_is_longer(length: int) -> None:
    whole, words = assemble(plan(words=400), Metronome())
    part, first = assemble(plan(words=400, samples=length), Metronome())
    assert first == words[: len(first)]
    np.testing.assert_array_equal(part, whole[: len(part)])
    assert first[-1][2] > length
    ends = [end for text, _, end in first if text[-1] in ".?"]
    assert all(end <= length for end in ends[:-1])


def test_the_seed_decides() -> None:
    def spoken(seed: int, number: int) -> tuple[list[tuple[str, int, int]], bytes]:
        samples, words = assemble(plan(seed=seed, number=number), Metronome())
        return words, samples.tobytes()

    assert spoken(1, 0) == spoken(1, 0)
    assert spoken(1, 0) != spoken(2, 0)
    assert spoken(1, 0) != spoken(1, 1)


@pytest.mark.slow
@pytest.mark.usefixtures("without_flite")
def test_another_seed_gives_another_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talks, "QUICK_TALKS", 1)

    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    assert open_talks(quick=True, seed=1).hash != open_talks(quick=True).hash


@pytest.mark.parametrize("flite", [False, True])
@pytest.mark.slow
def test_the_hash_is_the_same_on_another_machine(flite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made here, and made here without vector instructions; where the synthesizers are those of one, as there, too."""
    if not flite:
        monkeypatch.setenv("PATH", "")
    elif installed_flite() is None:
        pytest.skip("flite is not installed")
    monkeypatch.setattr(talks, "QUICK_TALKS", 2)
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "here"))
    here = open_talks(quick=True)
    made = "setattr(talks, 'QUICK_TALKS', 2) or talks.open_talks(quick=True).hash"
    assert hash_elsewhere(made, tmp_path / "there") == here.hash
    versions = here.name.removeprefix("talks-").removesuffix("-seed0-quick")
    known = HASHES.get(versions) if platform.machine() == "x86_64" else None
    assert here.hash == known or known is None


@pytest.mark.slow
@pytest.mark.usefixtures("without_flite")
def test_the_beginning_of_a_talk_is_that_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr(talks, "QUICK_TALKS", 2)
    more, less = open_talks(quick=True), open_talks(beginnings=Beginnings(2, 5 * SAMPLE_RATE))
    assert [part["group"] for part in less.references] == [part["group"] for part in more.references]
    for short, long in zip(less.utterances(), more.utterances(), strict=True):
        heard, whole = short.audio(), long.audio()
        assert 5 * SAMPLE_RATE < len(heard) < 15 * SAMPLE_RATE < len(whole)
        np.testing.assert_array_equal(heard, whole[: len(heard)])
        assert short.words == long.words[: len(short.words)]


@pytest.mark.slow
def test_quick_talks_are_whole_and_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    corpus = open_talks(quick=True)
    utterances = list(corpus.utterances())
    assert "espeak-ng" in corpus.name
    assert ("flite" in corpus.name) == (installed_flite() is not None)
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


@pytest.mark.slow
def test_a_failing_voice_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr(talks, "__name__", "whispertide_lab.evaluation.corpora.nowhere")
    with pytest.raises(CorpusError, match=r"talk-0\d in the voice \S+ could not be made: .*nowhere"):
        open_talks(quick=True)
