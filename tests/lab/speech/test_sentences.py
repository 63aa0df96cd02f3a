from pathlib import Path

import numpy as np
import pytest

from whispertide.errors import CorpusError
from whispertide_lab.speech.sentences import VOICES, open_sentences, recording
from whispertide_lab.speech.text import is_test_sentence
from whispertide_lab.speech.voices import HELD_OUT, TRAINED, Spoken

PAIR = (TRAINED[1], HELD_OUT[0])  # espeak-ng, which is fast


def test_a_recording_has_silence_around_its_words() -> None:
    spoken = Spoken(np.full(3000, 100, np.int16), ((0, 1000), (1000, 3000)))
    samples, words = recording("Two words.", spoken, np.random.RandomState(0))
    assert [text for text, _, _ in words] == ["Two", "words."]
    first, last = words[0][1], words[-1][2]
    assert last - first == 3000
    assert words[0][2] == words[1][1] == first + 1000
    assert first >= 1600
    assert len(samples) - last >= 3200
    assert np.all(samples[first:last] == round(0.7 * 32767))
    assert not samples[:first].any()
    assert not samples[last:].any()


def test_every_voice_of_the_talks_is_there() -> None:
    assert set(VOICES) == {*TRAINED, *HELD_OUT}
    assert len(set(VOICES)) == len(VOICES)


@pytest.mark.slow
def test_sentences_are_reserved_and_timed_and_the_first_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "a"))
    two = list(open_sentences("grammar", PAIR, 2).utterances())
    assert [utterance.group for utterance in two] == [str(voice) for voice in (*PAIR, *PAIR)]
    for utterance in two:
        assert utterance.exact_times
        assert is_test_sentence(" ".join(word.text for word in utterance.words))
        audio = utterance.audio()
        assert len(audio) == round(utterance.seconds * 16000)
        first, last = utterance.words[0], utterance.words[-1]
        assert first.start is not None
        assert last.end is not None
        assert np.abs(audio[: first.start - 800]).max() < 0.02 < np.abs(audio[first.start : last.end]).max()
    assert len({utterance.words for utterance in two}) == 4

    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "b"))
    one = list(open_sentences("grammar", PAIR[:1], 1).utterances())
    assert one[0].words == two[0].words
    np.testing.assert_array_equal(one[0].audio(), two[0].audio())


@pytest.mark.slow
def test_a_lost_recording_is_made_again_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    corpus = open_sentences("grammar", PAIR[:1], 2)
    (corpus.folder / f"{corpus.references[1]['id']}.json").unlink()
    assert open_sentences("grammar", PAIR[:1], 2).hash == corpus.hash
    assert open_sentences("grammar", PAIR[:1], 2, seed=1).hash != corpus.hash


@pytest.mark.slow
def test_voices_that_are_not_installed_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    corpus = open_sentences("grammar", TRAINED[:2], 1)
    assert [utterance.group for utterance in corpus.utterances()] == ["espeak-ng:en-us"]
    assert "flite" not in corpus.name
    with pytest.raises(CorpusError, match=r"flite:slt; none is installed .*apt-get install flite"):
        open_sentences("grammar", TRAINED[:1], 1)
