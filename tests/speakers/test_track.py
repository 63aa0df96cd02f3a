"""The track: labels of a stream, whatever its portions, and labels of words."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripted_voices import LoudIsVoice, ScriptedEmbedding, spoken, word
from whispertide.audio import silero
from whispertide.errors import OptionError
from whispertide.speakers import track as module
from whispertide.speakers.track import SpeakerTrack
from whispertide.types import Word, to_samples


@pytest.fixture(autouse=True)
def loud_is_voice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load_silero", LoudIsVoice)


TALK = spoken((1, 4), (0, 0.5), (2, 4), (0, 0.5), (1, 3), (2, 3))


def speakers_of(track: SpeakerTrack, *middles_s: float) -> list[int | None]:
    return [track.speaker(to_samples(at - 0.1), to_samples(at + 0.1)) for at in middles_s]


def test_each_turn_has_its_voice() -> None:
    track = SpeakerTrack(ScriptedEmbedding(), 4)
    track.feed(TALK)
    assert speakers_of(track, 1, 3, 5.5, 7.5, 10, 11, 13, 14.5) == [1, 1, 2, 2, 1, 1, 2, 2]
    assert track.count == 2


@given(cuts=st.lists(st.integers(0, len(TALK)), max_size=12))
@settings(max_examples=15, deadline=None)
def test_portions_do_not_matter(cuts: list[int]) -> None:
    whole, parts = SpeakerTrack(ScriptedEmbedding(), 4), SpeakerTrack(ScriptedEmbedding(), 4)
    whole.feed(TALK)
    for start, end in pairwise((0, *sorted(cuts), len(TALK))):
        parts.feed(TALK[start:end])
    assert parts.heard == whole.heard


def test_a_snapshot_goes_on_as_the_stream_did() -> None:
    track, other = SpeakerTrack(ScriptedEmbedding(), 4), SpeakerTrack(ScriptedEmbedding(), 4)
    track.feed(TALK[:100_000])
    state = track.snapshot()
    track.feed(TALK[100_000:])
    for _ in range(2):
        other.restore(state)
        other.feed(TALK[100_000:])
        assert other.heard == track.heard


def test_a_label_of_a_guess_may_change_when_more_is_heard() -> None:
    track = SpeakerTrack(ScriptedEmbedding(), 4)
    track.feed(spoken((1, 4), (2, 0.7)))
    (early,) = track.label([word("hello", 4.1, 4.5)])
    track.feed(spoken((2, 3)))
    (late,) = track.label([early])
    assert (early.speaker, late.speaker) == (1, 2)


def test_within_a_turn_a_label_is_settled_as_soon_as_its_word_was_heard() -> None:
    track = SpeakerTrack(ScriptedEmbedding(), 4)
    track.feed(spoken((1, 4.096)))
    assert track.is_settled(word("hello", 3.6, 4.0))
    assert not track.is_settled(word("there", 4.0, 4.2))


def test_after_a_change_a_label_is_settled_once_the_new_voice_is_known() -> None:
    track = SpeakerTrack(ScriptedEmbedding(), 4)
    track.feed(spoken((1, 4.096), (2, 0.512)))
    later = word("hello", 4.2, 4.5)
    track.feed(spoken((2, 0.512)))
    assert (track.label([later])[0].speaker, track.is_settled(later)) == (1, False)
    track.feed(spoken((2, 0.512)))
    assert (track.label([later])[0].speaker, track.is_settled(later)) == (2, True)


def test_a_settled_label_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SURE", 0.99)  # a little of another voice makes the script's vectors hardly unlike
    track, talk = SpeakerTrack(ScriptedEmbedding(), 4), spoken((1, 4), (0, 0.5), (2, 4), (0, 0.5), (1, 3), (0, 0.5))
    words = [word("w", at / 10, at / 10 + 0.3) for at in range(120)]
    settled: dict[Word, int | None] = {}
    for start in range(0, len(talk), 1600):
        track.feed(talk[start : start + 1600])
        heard = [each for each in words if each.end <= start + 1600 and each not in settled and track.is_settled(each)]
        settled |= {each: track.speaker(each.start, each.end) for each in heard}
    assert len(settled) > 110
    assert all(track.speaker(each.start, each.end) == speaker for each, speaker in settled.items())


def test_no_label_is_waited_for_without_end() -> None:
    track = SpeakerTrack(ScriptedEmbedding(), 4)
    track.feed(spoken((1, 4), (0, 4)))
    quiet = word("oh", 7.4, 7.6)
    assert not track.is_settled(quiet)
    track.feed(spoken((0, 1.6)))
    assert track.is_settled(quiet)


def test_the_rest_of_a_word_has_its_voice() -> None:
    track = SpeakerTrack(ScriptedEmbedding(), 4)
    track.feed(TALK)
    words = track.label([word(" can", 3.5, 4), word("not", 5, 5.2), word(" go", 5.5, 6)])
    assert [each.speaker for each in words] == [1, 1, 2]


def test_silence_asks_no_network_and_labels_nothing() -> None:
    embedding = ScriptedEmbedding()
    track = SpeakerTrack(embedding, 4)
    track.feed(spoken((0, 20)))
    assert (embedding.asked, track.heard) == (0, ())
    assert track.label([word("oh", 3, 3.2)])[0].speaker is None


def test_a_word_far_from_all_that_was_heard_has_no_label() -> None:
    track = SpeakerTrack(ScriptedEmbedding(), 4)
    track.feed(spoken((1, 3), (0, 20)))
    assert track.label([word("oh", 2, 2.2), word("oh", 15, 15.2)])[0].speaker == 1
    assert track.label([word("oh", 15, 15.2)])[0].speaker is None


@pytest.mark.slow
def test_memory_of_a_long_stream_is_bounded() -> None:
    track = SpeakerTrack(ScriptedEmbedding(), 4)
    for _ in range(40):
        track.feed(spoken((1, 5), (2, 5)))
    state = track.snapshot()
    assert len(state.heard) <= 2 + 120 * 16_000 // module.STEP
    assert len(state.audio) <= module.LENGTH + silero.BLOCK


def test_what_is_stored_holds_no_voices() -> None:
    track = SpeakerTrack(ScriptedEmbedding(), 4)
    track.feed(TALK)
    state = track.snapshot().without_voices()
    assert (state.voices.known, state.voices.waiting) == ([], [])
    other = SpeakerTrack(ScriptedEmbedding(), 4)
    other.restore(state)
    other.feed(spoken((0, 2), (1, 4)))
    assert other.heard[-1].speaker == 3  # nobody can say whether it was heard before
    assert track.count == 2  # the track itself goes on


@pytest.mark.parametrize("most", [0, -1, 21])
def test_an_impossible_number_is_refused(most: int) -> None:
    with pytest.raises(OptionError, match="speakers"):
        SpeakerTrack(ScriptedEmbedding(), most)
