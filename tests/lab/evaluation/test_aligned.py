from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide import api
from whispertide.audio.file import load_audio
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.cli.bundled import bundled_audio
from whispertide.decoding.token_words import WordTiming
from whispertide.types import N_SAMPLES, SAMPLE_RATE, Span, Word
from whispertide_lab.evaluation import aligned
from whispertide_lab.evaluation.aligned import Stretch, align_corpus, placement_error, spans_of, stretches
from whispertide_lab.speech.utterance import Recordings, RefWord, Utterance

CLIPS = Path(__file__).parents[2] / "clips"


def heard_at(*seconds: tuple[int, float, float]) -> dict[int, Word]:
    return {at: Word("x", round(a * SAMPLE_RATE), round(b * SAMPLE_RATE), 1.0) for at, a, b in seconds}


def test_a_recording_is_cut_between_neighbours_that_were_both_heard() -> None:
    heard = heard_at((0, 0, 1), (1, 2, 3), (3, 20, 21), (4, 22, 23), (6, 40, 41))
    found = stretches(7, heard, 45 * SAMPLE_RATE)
    middle = round(21.5 * SAMPLE_RATE)
    assert found == [Stretch(0, 4, Span(0, middle)), Stretch(4, 7, Span(middle, 45 * SAMPLE_RATE))]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 8), st.integers(0, 4)), max_size=60),
    st.integers(0, 40),
)
def test_stretches_fit_into_a_window_and_do_not_overlap(words: list[tuple[bool, int, int]], rest: int) -> None:
    at = 0
    heard: dict[int, Word] = {}
    for index, (known, length, pause) in enumerate(words):
        if known:
            heard |= heard_at((index, at, at + length))
        at += length + pause
    found = stretches(len(words), heard, (at + rest) * SAMPLE_RATE)
    assert all(one.span.end - one.span.start <= N_SAMPLES and one.first < one.last for one in found)
    for before, after in pairwise(found):
        assert before.last <= after.first
        assert before.span.end <= after.span.start
    for one in found:
        assert all(one.span.start < heard[at].end for at in range(one.first, one.last) if at in heard)


def timing(text: str, start: int, end: int) -> WordTiming:
    return WordTiming(text, (), start, end, 1.0)


def test_words_get_the_times_of_their_letters() -> None:
    timings = [timing(" A", 0, 10), timing(" well", 10, 20), timing("-known", 20, 40), timing(" man.", 40, 50)]
    assert spans_of(["A", "well-known", "man."], timings) == [Span(0, 10), Span(10, 40), Span(40, 50)]
    assert spans_of(["A", "well-known", "man."], timings[:2]) == [Span(0, 10), None, None]
    assert spans_of(["An", "other", "text"], timings) == [None, None, None]
    assert spans_of(["A"], [timing(" A", 5, 5)]) == [None], "a word that lasts no time was not found"


def clips() -> tuple[Utterance, ...]:
    """The clip "river" in two languages and with known times, and a sound in which nobody speaks."""
    audio = load_audio(CLIPS / "river.flac")
    words = tuple(map(RefWord, (CLIPS / "river.txt").read_text().split()))
    river = Utterance("river", words, len(audio) / SAMPLE_RATE, lambda: audio)
    timed = tuple(RefWord(word.text, 0, 1) for word in words)
    return (
        river,
        replace(river, id="fluss", language="de"),
        replace(river, id="known", words=timed, exact_times=True),
        Utterance("rain", (), 1.0, lambda: pytest.fail("nothing is said in it")),
    )


def test_words_are_placed_in_order_and_the_utterance_says_by_whom() -> None:
    told: list[float] = []
    clean = Recordings("clips", "0123456789ab", clips())
    corpus = align_corpus(clean, api.load("nano.en", threads=1), "nano.en", {"en"}, told.append, clips()[2:3])
    river, fluss, known, rain = corpus.utterances()
    assert (river.word_times, fluss.word_times, known.word_times, rain.word_times) == (
        "aligned by nano.en",
        "",
        "exact",
        "",
    )
    assert not river.exact_times
    ends = [word.end for word in river.words]
    assert None not in ends
    assert ends == sorted(ends, key=lambda end: end or 0)
    # the recording is silent until 1.44 s, between its sentences (3.04 to 3.20 s) and from 5.16 s on
    first, sixth, last = ((ends[at] or 0) / SAMPLE_RATE for at in (0, 5, -1))
    assert 1.44 < first < 2.0
    assert abs(sixth - 3.1) < 0.3
    assert abs(last - 5.16) < 0.3
    assert fluss.words[0].end is None, "the model does not write German"
    assert corpus.error is not None
    assert (corpus.error.recordings, corpus.error.placed) == (1, len(known.words))
    assert corpus.error.median_s == pytest.approx(np.median([end / SAMPLE_RATE for end in ends if end]), abs=1e-3)
    assert len(told) == 2
    assert (corpus.name, len(corpus.hash)) == ("clips-aligned-by-nano.en", 12)
    assert corpus.hash != clean.hash


def test_the_error_is_that_of_the_ends_of_words_that_were_placed() -> None:
    ends = [1.0, 2.0, 3.0, 4.0]
    right = tuple(RefWord("a", 0, round(end * SAMPLE_RATE)) for end in ends)
    known = Utterance("u", right, 5.0, lambda: pytest.fail("not heard"), exact_times=True)
    moved = [0.5, -0.1, 0.1, None]
    own = tuple(
        RefWord("a") if by is None else RefWord("a", 0, round((end + by) * SAMPLE_RATE))
        for end, by in zip(ends, moved, strict=True)
    )
    error = placement_error([known], [replace(known, words=own)])
    assert error is not None
    assert (error.recordings, error.words, error.placed) == (1, 4, 3)
    assert error.mean_s == pytest.approx(1 / 6)
    assert error.median_s == pytest.approx(0.1)
    assert error.p90_s == pytest.approx(0.42)
    assert placement_error([], []) is None
    assert placement_error([known], [replace(known, words=(RefWord("a"),) * 4)]) is None


@pytest.mark.slow
def test_a_long_recording_is_placed_stretch_by_stretch() -> None:
    audio = bundled_audio()  # the model is sure of it: nothing is decoded again at higher temperatures
    words = tuple(map(RefWord, (BUNDLED_DIR / "audio" / "demo.txt").read_text().split()))
    whole = Utterance("long", words, len(audio) / SAMPLE_RATE, lambda: audio)
    corpus = Recordings("long", "0", (whole,))

    assert len(audio) > N_SAMPLES
    (found,) = align_corpus(corpus, api.load("nano.en", threads=1), "nano.en", {"en"}, lambda _: None).utterances()
    ends = [word.end for word in found.words if word.end is not None]
    assert ends == sorted(ends)
    assert len(ends) > len(words) / 2
    assert max(ends) > N_SAMPLES


def test_times_are_kept_and_found_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By audio, words and model; a note that is damaged is no note."""
    transcriber = api.load("nano.en", threads=1)  # its graphs lie in the user's cache
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    clip = clips()[0]
    placed = [Span(100 * number, 100 * number + 50) for number, _ in enumerate(clip.words)]
    monkeypatch.setattr(aligned, "_located", lambda *_: placed)
    first = aligned.aligned(clip, transcriber, "nano.en")
    assert [word.end for word in first.words] == [span.end for span in placed]
    monkeypatch.setattr(aligned, "_located", lambda *_: pytest.fail("it is known"))
    assert aligned.aligned(clip, transcriber, "nano.en").words == first.words
    (note,) = (tmp_path / "aligned").iterdir()
    other = [None] * len(clip.words)
    monkeypatch.setattr(aligned, "_located", lambda *_: other)
    changed = replace(clip, words=(RefWord("Another"), *clip.words[1:]))
    assert aligned.aligned(changed, transcriber, "nano.en").words[1].end is None
    note.write_text(note.read_text().replace("[", "{", 1))
    assert aligned.aligned(clip, transcriber, "nano.en").words[0].end is None
    note.write_text(note.read_text().replace("null", "[2, 1]", 1))
    assert aligned.aligned(clip, transcriber, "nano.en").words[0].end is None
