"""Whole recordings: labels once everything was heard, and segments cut where the voice changes."""

import numpy as np
import pytest
from support.scripted_voices import ScriptedEmbedding, spoken
from tests.speakers.test_track import LoudIsVoice, word

from whispertide.decoding.longform import OfflineSegment
from whispertide.speakers import track as module
from whispertide.speakers.whole import WholeTrack, parted, settled
from whispertide.types import Span, Word, to_samples


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


def test_voices_that_turn_out_to_be_one_are_joined_and_moments_given_away() -> None:
    rows = [unit(1, 0, 0.1)] * 5 + [unit(0.9, 0.2, 0)] * 5 + [unit(0, 1, 0)] * 5 + [unit(0.7, 0.7, 0)]
    numbers = settled(np.array(rows, np.float32), [2] * 5 + [1] * 5 + [3] * 5 + [4])
    assert numbers[:15] == [1] * 10 + [2] * 5
    assert numbers[15] in (1, 2)


def test_one_stretch_is_a_voice_where_there_is_no_other() -> None:
    assert settled(np.array([unit(1, 0)], np.float32), [1]) == [1]
