"""Whole recordings: labels once everything was heard, and segments cut where the voice changes."""

import numpy as np
import pytest

from scripted_voices import LoudIsVoice, ScriptedEmbedding, spoken, word
from whispertide.speakers import track as module
from whispertide.speakers import whole
from whispertide.speakers.whole import WholeTrack, parted, settled
from whispertide.types import OfflineSegment, Span, Word, to_samples


@pytest.fixture(autouse=True)
def loud_is_voice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load_silero", LoudIsVoice)


def segment(*words: Word) -> OfflineSegment:
    span = Span(words[0].start, words[-1].end)
    text = "".join(each.text for each in words)
    return OfflineSegment(0, span, text, (1, 2), words, -0.1, 1.2, 0.0, 0.0, "en")


def test_a_segment_is_cut_where_the_voice_changes() -> None:
    track = WholeTrack(ScriptedEmbedding(), 4)
    audio = spoken((1, 4), (2, 4))
    assert sum(map(len, track.hearing(np.array_split(audio, 9)))) == len(audio)
    words = word(" Are", 1, 1.5), word(" you?", 2, 2.5), word(" Yes.", 5, 5.5)
    first, second = parted([segment(*words)], track)
    assert (first.text, first.words[0].speaker, first.id) == (" Are you?", 1, 0)
    assert (second.text, second.words[0].speaker, second.id) == (" Yes.", 2, 1)
    assert (first.span, second.span) == (Span(to_samples(1), to_samples(5)), Span(to_samples(5), to_samples(5.5)))
    assert first.text + second.text == segment(*words).text


def test_a_segment_of_one_voice_stays_whole() -> None:
    track = WholeTrack(ScriptedEmbedding(), 4)
    list(track.hearing([spoken((1, 4))]))
    (only,) = parted([segment(word(" Hello", 1, 1.5), word(" there.", 2, 2.5))], track)
    assert (only.tokens, [each.speaker for each in only.words]) == ((1, 2), [1, 1])


def unit(*parts: float) -> list[float]:
    vector = np.array(parts)
    return list(vector / np.linalg.norm(vector))


ROWS = np.array([unit(1, 0, 0.1)] * 5 + [unit(0, 1, 0)] * 5 + [unit(0.9, 0.2, 0)] * 5 + [unit(0.6, 0.7, 0)], np.float32)


def test_voices_count_in_order_and_moments_go_to_the_nearest() -> None:
    assert settled(ROWS, 4) == [1] * 5 + [2] * 5 + [1] * 5 + [2]


def test_no_more_voices_than_asked_for() -> None:
    rows = np.concatenate([ROWS, np.array([unit(0, 0, 1)] * 5, np.float32)])
    assert max(settled(rows, 4)) == 3
    assert max(settled(rows, 2)) == 2
    assert settled(rows, 1) == [1] * len(rows)


def test_a_cough_takes_no_voice_of_those_that_were_asked_for() -> None:
    """Two voices may be less unlike than it is to both."""
    rows = [unit(1, 0, 0)] * 5 + [unit(0.3, 0.95, 0)] * 5 + [unit(0, 0, 1)]
    assert settled(np.array(rows, np.float32), 2)[:10] == [1] * 5 + [2] * 5


def test_a_long_recording_is_joined_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "_AT_ONCE", 6)
    assert settled(ROWS, 4)[:15] == [1] * 5 + [2] * 5 + [1] * 5


def test_one_stretch_is_a_voice_where_there_is_no_other() -> None:
    assert settled(np.array([unit(1, 0)], np.float32), 4) == [1]


def test_many_odd_moments_of_a_long_recording_hide_no_voice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is like no other, so joining them goes no further; whose they are only the voices can tell."""
    monkeypatch.setattr(whole, "_AT_ONCE", 20)
    random = np.random.default_rng(7)
    odd = random.normal(size=(300, 64)).astype(np.float32)
    first, second = np.eye(2, 64, dtype=np.float32)
    rows = np.concatenate([np.stack([one, one, one, moment]) for moment in odd for one in (first, second)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    numbers = settled(rows, 4)
    assert {*numbers[0::8]} == {1}
    assert {*numbers[4::8]} == {2}


def test_of_stretches_that_are_all_unlike_nobody_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "_AT_ONCE", 20)
    assert settled(np.eye(64, dtype=np.float32), 4) == [1] * 64
