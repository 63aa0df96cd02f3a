"""How a corpus is cut into clips."""

from dataclasses import replace

import numpy as np
import pytest

from evaluation_traces import reference
from whispertide.errors import OptionError
from whispertide.types import SAMPLE_RATE, to_samples
from whispertide_lab.evaluation.clips import clips, clips_of, cut_sentences, evenly, sentences_in
from whispertide_lab.speech.utterance import Recordings, RefWord, Utterance


def utterance(spans: list[tuple[float, float]], length: float) -> Utterance:
    words = tuple(
        RefWord(f"w{n}", round(start * SAMPLE_RATE), round(end * SAMPLE_RATE)) for n, (start, end) in enumerate(spans)
    )
    audio = np.arange(round(length * SAMPLE_RATE), dtype=np.float32)
    return Utterance("u", words, length, lambda: audio, exact_times=True)


@pytest.mark.parametrize(("count", "most"), [(47, 24), (24, 24), (10, 24), (100, 24), (1, 1)])
def test_sentences_are_taken_from_all_over_a_corpus(count: int, most: int) -> None:
    """Of fewer than twice as many as are wanted the first ones were taken."""
    chosen = evenly(range(count), most, Recordings("a corpus", "0", ()))
    assert len(chosen) == min(count, most)
    steps = np.diff([*chosen, count])
    assert steps.min() >= 1
    assert steps.max() - steps.min() <= 1


def test_clips_have_every_word_once_and_its_whole_sound() -> None:
    dice = np.random.default_rng(3)
    spans, now = [], 0.3
    for _ in range(200):
        spans.append((now, now + 0.3))
        now += 0.3 + float(dice.choice([0.0, 0.1, 0.6, 4.0], p=[0.5, 0.35, 0.14, 0.01]))
    whole = utterance(spans, now + 20)
    found = list(clips(whole))
    assert [word for clip in found for word in clip.words] == [word.text for word in whole.words]
    assert len(found) > 5
    ends = {word.text: (word.start, word.end) for word in whole.words}
    for words, audio, *_ in found:
        first, last = ends[words[0]], ends[words[-1]]
        assert first[0] is not None
        assert last[1] is not None
        assert audio[0] <= first[0]
        assert audio[-1] >= last[1] - 1
        assert len(audio) <= 11.5 * SAMPLE_RATE


def test_clips_say_whose_they_are() -> None:
    spans = [(10.0 * n, 10.0 * n + 1.0) for n in range(4)]
    for group, words, source in (("ann", True, "ann"), ("", True, "u"), ("unknown", True, "u"), ("rain", False, "u")):
        whole = replace(utterance(spans, 40.0), group=group)
        found = list(clips(whole if words else replace(whole, words=())))
        assert {clip.source for clip in found} == {source}
        assert len(found) > 1


def test_without_exact_times_a_clip_is_a_whole_recording_that_a_window_holds() -> None:
    words = (RefWord("one"), RefWord("two"))

    def recording(length: float) -> Utterance:
        return Utterance("u", words, length, lambda: np.zeros(round(length * SAMPLE_RATE), np.float32))

    assert [(clip.words, len(clip.samples)) for clip in clips(recording(30))] == [(("one", "two"), 480_000)]
    assert not list(clips(recording(30.1)))


def test_where_nothing_is_said_clips_are_cut_anywhere() -> None:
    silent = Utterance("u", (), 25, lambda: np.arange(25 * SAMPLE_RATE, dtype=np.float32))
    found = list(clips(silent))
    assert [(clip.words, len(clip.samples) / SAMPLE_RATE) for clip in found] == [((), 10.0), ((), 10.0), ((), 5.0)]
    np.testing.assert_array_equal(np.concatenate([clip.samples for clip in found]), silent.audio())


def test_clips_are_cut_in_the_middle_of_a_pause() -> None:
    found = list(clips(utterance([(0.0, 1.0), (1.1, 2.5), (3.5, 4.0)], 5.0)))
    assert [clip.words for clip in found] == [("w0", "w1"), ("w2",)]
    assert found[0][1][-1] == 3.0 * SAMPLE_RATE - 1
    assert found[1][1][-1] == 5.0 * SAMPLE_RATE - 1


def test_a_long_silence_in_front_costs_no_word() -> None:
    found = list(clips(utterance([(15.0, 15.5), (15.6, 16.0), (30.0, 31.0)], 32.0)))
    assert [clip.words for clip in found] == [("w0", "w1"), ("w2",)]
    assert found[0].samples[0] == 14.75 * SAMPLE_RATE
    assert found[0].samples[-1] >= 16.0 * SAMPLE_RATE


@pytest.mark.parametrize("exact_times", [True, False])
def test_a_clip_is_in_the_language_of_its_recording(exact_times: bool) -> None:
    german = replace(utterance([(0.0, 1.0)], 5.0), exact_times=exact_times, language="de")
    assert [clip.language for clip in clips(german)] == ["de"]


def test_sentences_are_cut_out_with_their_times() -> None:
    said = (("No.", 0.5, 0.9), ("The", 2.0, 2.2), ("river", 2.2, 2.6), ("rises,", 2.6, 4.0), ("slowly.", 4.0, 4.5))
    talk = reference(*said, seconds=10.0)
    ((audio, words),) = cut_sentences(talk, 0.2, 2.0, 12.0)  # the first is too short
    assert len(audio) == to_samples(2.9)
    assert [word.text for word in words] == ["The", "river", "rises,", "slowly."]
    assert (words[0].start, words[-1].end) == (to_samples(0.2), to_samples(2.7))
    assert list(cut_sentences(replace(talk, exact_times=False), 0.2, 2.0, 12.0)) == []


def unknown(length: float) -> Utterance:
    """Somebody says something, and nobody knows when."""
    return Utterance("u", (RefWord("one"),), length, lambda: np.zeros(round(length * SAMPLE_RATE), np.float32))


def three(of: Utterance) -> Recordings:
    return Recordings("three", "3", (of, of, of))


@pytest.mark.parametrize(("most", "count"), [(2, 2), (9, 3), (None, 3)])
def test_so_many_clips_are_taken_or_all(most: int | None, count: int) -> None:
    assert len(clips_of(three(utterance([(0.0, 1.0)], 5)), most)) == count


def test_a_long_recording_is_cut_at_times_that_a_model_gave() -> None:
    long = replace(utterance([(n, n + 1.0) for n in range(40)], 40), exact_times=False)
    assert list(clips(long)) == [], "nobody knows where its words are"
    cut = list(clips(replace(long, aligned_by="base")))
    assert [word for clip in cut for word in clip.words] == [word.text for word in long.words]
    assert max(len(clip.samples) for clip in cut) <= 11 * SAMPLE_RATE
    short = replace(utterance([(0.0, 1.0), (1.0, 2.0)], 5), exact_times=False, aligned_by="base")
    assert len(list(clips(short))) == 1, "what a window holds stays whole"


def test_a_text_without_marks_is_one_sentence() -> None:
    plain = utterance([(0.0, 1.0), (1.0, 2.0)], 5)
    words = tuple(replace(word, text=text) for word, text in zip(plain.words, ("the", "sea"), strict=True))
    assert list(sentences_in(replace(plain, words=words))) == [words]
    ended = (replace(words[0], text="Well."), words[1])
    assert list(sentences_in(replace(plain, words=ended))) == [ended[:1]], "the rest does not end"
    assert list(sentences_in(replace(plain, words=words, exact_times=False))) == []
    unplaced = (words[0], RefWord("sea"))
    assert list(sentences_in(replace(plain, words=unplaced, exact_times=False, aligned_by="base"))) == []


def test_a_corpus_that_cannot_be_cut_is_told() -> None:
    with pytest.raises(OptionError, match="whose words have times"):
        clips_of(three(unknown(31)), None)
