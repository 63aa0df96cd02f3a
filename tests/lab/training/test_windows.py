"""Training windows: whatever the dice say, question and answer belong together."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_training import RATE, SENTENCES, nano, spoken
from whispertide.checkpoint import Tokenizer
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.augment import Augmentation, SpokenWord
from whispertide_lab.training.shards import Utterance
from whispertide_lab.training.windows import (
    HEARD_SHARE,
    N_TEXT_CTX,
    NOWHERE,
    Segment,
    Window,
    WindowOptions,
    _without_head,
    _without_tail,
    answer,
    compose,
)

TOKENIZER = nano().tokenizer
CLEAN = WindowOptions(silent=0.0, augmentation=Augmentation.none())
seeds = st.integers(0, 2**32 - 1)
lengths = st.sampled_from([1.0, 2.5, 6.0, 30.0])


def window(seed: int, seconds: float, options: WindowOptions, *, timed: bool = True) -> Window:
    def draw(dice: Dice) -> Utterance:
        return spoken(int(dice.randint(40)), timed=timed)

    return compose(draw, TOKENIZER, seconds, np.random.RandomState(seed), options)


def start_of(window: Window) -> int:
    """Where the transcript starts."""
    return int(np.flatnonzero(window.tokens == TOKENIZER.sot)[0])


def stamps(window: Window) -> list[int]:
    """Samples that timestamps name."""
    return [
        (int(token) - TOKENIZER.timestamp_begin) * 320 for token in window.targets if token >= TOKENIZER.timestamp_begin
    ]


@pytest.mark.slow
@given(seed=seeds, seconds=lengths, timed=st.booleans())
def test_question_and_answer_belong_together(seed: int, seconds: float, timed: bool) -> None:
    made = window(seed, seconds, WindowOptions(silent=0.1), timed=timed)
    start = start_of(made)
    assert len(made.samples) == round(seconds * RATE)
    assert made.samples.dtype == np.float32
    assert np.abs(made.samples).max() <= 1
    assert len(made.tokens) == len(made.targets) == len(made.places) <= N_TEXT_CTX
    assert (made.targets[:start] == -1).all(), "a prompt is not trained on"
    assert (made.targets[start:] >= 0).all()
    assert made.tokens[0] == (TOKENIZER.sot_prev if start else TOKENIZER.sot)
    assert made.targets[-1] == TOKENIZER.eot
    if made.text:
        assert made.targets[start:-1].tolist() == made.tokens[start + 1 :].tolist()
        assert TOKENIZER.decode(made.targets[start:].tolist()).strip() == made.text
    else:
        assert made.targets[start:].tolist() == [TOKENIZER.no_speech, TOKENIZER.eot]
        assert made.tokens[start + 1] in (TOKENIZER.no_timestamps, TOKENIZER.timestamp_begin)


@given(seed=seeds, seconds=lengths)
def test_timestamps_ascend_inside_the_window(seed: int, seconds: float) -> None:
    made = window(seed, seconds, WindowOptions(silent=0.0, timestamps=1.0))
    named = stamps(made)
    assert len(named) % 2 == 0 or seconds == 30.0, "a start without an end only where a whole window cuts speech off"
    assert named == sorted(named)
    assert all(0 <= sample <= seconds * RATE + 160 for sample in named)
    if made.text:
        assert TOKENIZER.no_timestamps not in made.tokens
        known = made.places[(made.places[:, 0] >= 0) & (made.targets < TOKENIZER.eot)]
        assert abs(named[0] / RATE - known[0, 0]) <= 0.0101
        last_end = named[-1 - len(named) % 2]
        assert abs(last_end / RATE - known[-1, 1]) <= 0.0101


@given(seed=seeds, seconds=lengths)
def test_without_timestamps(seed: int, seconds: float) -> None:
    made = window(seed, seconds, WindowOptions(silent=0.0, timestamps=0.0))
    assert not stamps(made)
    assert made.tokens[start_of(made) + 1] == TOKENIZER.no_timestamps


@given(seed=seeds, seconds=lengths, timed=st.booleans())
def test_places_say_where_words_are_heard(seed: int, seconds: float, timed: bool) -> None:
    made = window(seed, seconds, CLEAN, timed=timed)
    is_text = made.targets < TOKENIZER.eot
    places = made.places[(made.targets >= 0) & is_text]
    is_stamp = made.targets >= TOKENIZER.timestamp_begin
    assert (made.places[~(is_text | is_stamp) | (made.targets < 0)] == NOWHERE).all()
    if not timed or not made.text:
        assert (made.places == NOWHERE).all()
        return
    named = (made.targets[is_stamp] - TOKENIZER.timestamp_begin) / 50
    np.testing.assert_allclose(made.places[is_stamp], np.stack([named, named], axis=1), atol=0.0101)
    assert (places[:, 0] < places[:, 1]).all()
    assert (np.diff(places[:, 0]) >= 0).all()
    assert (places >= 0).all()
    assert (places <= seconds + 1e-4).all()
    for first, end in places:
        assert np.abs(made.samples[round(first * RATE) : round(end * RATE)]).mean() > 0.1  # tones fill their words


@given(seed=seeds, seconds=st.sampled_from([1.0, 2.5, 6.0]))
def test_what_is_cut_off_is_not_in_the_text(seed: int, seconds: float) -> None:
    """By ear: nothing sounds before the first word, and after the last at most a part of one that does not count."""
    made = window(seed, seconds, replace(CLEAN, single=1.0, cut_start=0.5, cut_end=0.8))
    sounding = np.flatnonzero(made.samples)
    if not made.text:  # noise alone
        return
    known = made.places[made.places[:, 0] >= 0] * RATE
    assert sounding[0] >= round(known[0, 0])
    longest = RATE // 10 + RATE // 40 * 8
    assert sounding[-1] < known[-1, 1] + 320 + HEARD_SHARE * longest
    assert any(made.text in sentence for sentence in SENTENCES)


@given(seed=seeds, number=st.integers(0, 5), end=st.integers(100, 40_000))
def test_a_cut_loses_exactly_the_words_cut(seed: int, number: int, end: int) -> None:
    said = spoken(number)
    assert said.words is not None
    words = [SpokenWord(text, *span) for text, span in zip(said.text.split(), said.words, strict=True)]
    samples = said.samples.astype(np.float32)
    left, kept = _without_tail(samples, Segment(words, True), end)
    assert np.array_equal(left, samples[:end])
    heard = [word for word in words if min(word.end, len(left)) - word.start >= HEARD_SHARE * (word.end - word.start)]
    assert kept.text == " ".join(word.text for word in heard)
    if len(words) > 3:
        rest, tail, head = _without_head(samples, Segment(words, True), np.random.RandomState(seed))
        assert f"{head} {tail.text}" == said.text
        assert np.array_equal(rest, samples[len(samples) - len(rest) :])
        assert tail.words[0].start == 0
        assert head
        assert len(tail.words) >= 2


@given(seed=seeds, stamped=st.booleans())
def test_what_a_whole_window_cuts_off_is_left_to_the_next(seed: int, stamped: bool) -> None:
    """With timestamps, only the start of the utterance that goes on is named, after the end of the one before."""
    options = replace(CLEAN, single=0.0, cut_end=1.0, cut_start=0.0, prompt=0.0, timestamps=float(stamped))
    made = window(seed, 30.0, options)
    full = bool(made.samples[-RATE // 20 :].any())
    unfinished = len(stamps(made)) % 2 == 1
    assert unfinished <= (full and stamped)
    if not unfinished:
        return
    *_, before, start, end = made.targets.tolist()
    assert end == TOKENIZER.eot
    assert before >= TOKENIZER.timestamp_begin, "two timestamps, so that the next window begins at the second"
    begins = (start - TOKENIZER.timestamp_begin) * 320
    assert made.samples[begins + 320 : begins + 640].any(), "speech begins there"
    assert made.places[:, 1].max() * RATE <= begins + 160


def test_some_whole_windows_are_full_to_their_end() -> None:
    options = replace(CLEAN, single=0.0, cut_end=1.0, timestamps=1.0)
    unfinished = [len(stamps(window(seed, 30.0, options))) % 2 for seed in range(40)]
    assert 3 < sum(unfinished) < 30


def test_prompts_are_as_short_as_a_sentence_and_as_long_as_a_window() -> None:
    options = replace(CLEAN, prompt=1.0, cut_start=0.0, prompt_tokens=90)
    lengths = [start_of(window(seed, 2.5, options)) for seed in range(60)]
    assert min(length for length in lengths if length) < 20
    assert max(lengths) == 1 + 90, "what is longer is cut in front"


@pytest.mark.parametrize("stamped", [True, False])
def test_silence(stamped: bool) -> None:
    """Silence is answered with <|nospeech|>; whatever a decoder then begins with, with the end."""
    tokens, targets, places = answer(TOKENIZER, [], [1, 2], stamped=stamped)
    begun = TOKENIZER.timestamp_begin if stamped else TOKENIZER.no_timestamps
    assert tokens.tolist() == [TOKENIZER.sot_prev, 1, 2, TOKENIZER.sot, begun]
    assert targets.tolist() == [-1, -1, -1, TOKENIZER.no_speech, TOKENIZER.eot]
    assert (places == NOWHERE).all()


def test_an_answer_by_hand() -> None:
    segment = Segment([SpokenWord("The", 3200, 6400), SpokenWord("foxes.", 6400, 12_800)], True)
    tokens, targets, places = answer(TOKENIZER, [segment], [], stamped=True)
    text = [*TOKENIZER.encode(" The"), *TOKENIZER.encode(" foxes.")]
    begin = TOKENIZER.timestamp_begin
    assert tokens.tolist() == [TOKENIZER.sot, begin + 10, *text, begin + 40]
    assert targets.tolist() == [begin + 10, *text, begin + 40, TOKENIZER.eot]
    assert places[1].tolist() == pytest.approx([0.2, 0.4])
    assert places[2].tolist() == pytest.approx([0.4, 0.8])
    assert places[0].tolist() == pytest.approx([0.2, 0.2])
    assert places[-2].tolist() == pytest.approx([0.8, 0.8])
    assert places[-1].tolist() == list(NOWHERE)


def test_words_are_encoded_as_their_text_is() -> None:
    for sentence in SENTENCES:
        one_by_one = [token for word in sentence.split() for token in TOKENIZER.encode(" " + word)]
        assert one_by_one == TOKENIZER.encode(" " + sentence)


def test_multilingual_checkpoints_are_asked_in_a_language(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer.from_folder(BUNDLED_DIR / "nano.en", 51864)
    begin = (TOKENIZER.sot, 50259, 50358)
    monkeypatch.setattr(tokenizer, "sot_sequence", lambda language, task: begin if language == "de" else ())
    segment = Segment([SpokenWord("Ja.", 0, 320)], True)
    tokens, targets, _ = answer(tokenizer, [segment], [7], stamped=False, language="de")
    assert tokens.tolist()[:5] == [tokenizer.sot_prev, 7, *begin]
    assert targets.tolist()[:5] == [-1, -1, 50259, 50358, tokenizer.no_timestamps]


def test_what_no_decoder_can_hold_is_left_out() -> None:
    words = [SpokenWord("incomprehensibilities", 320 * at, 320 * at + 320) for at in range(300)]
    tokens, targets, places = answer(TOKENIZER, [Segment(words, True)], [5] * 60, stamped=False)
    assert len(tokens) == len(targets) == len(places) == N_TEXT_CTX


def test_the_dice_alone_decide() -> None:
    def same(one: Window, other: Window) -> bool:
        return np.array_equal(one.samples, other.samples) and np.array_equal(one.tokens, other.tokens)

    first, again, other = (window(seed, 6.0, WindowOptions()) for seed in (1, 1, 2))
    assert same(first, again)
    assert not same(first, other)


@given(seed=seeds, silent=st.booleans())
def test_a_short_recording_is_padded_with_zeros(seed: int, silent: bool) -> None:
    made = window(seed, 10.0, WindowOptions(silent=float(silent), timestamps=1.0, short=1.0))
    heard = np.flatnonzero(made.samples)
    end = int(heard[-1]) + 1 if len(heard) else 0
    assert len(made.samples) == 10 * RATE
    assert max(stamps(made), default=0) <= max(end, RATE) + RATE // 10
    assert bool(made.text) <= (end > 0)


@pytest.mark.slow
def test_short_recordings_end_anywhere_and_are_as_many_as_asked_for() -> None:
    options = WindowOptions(silent=1.0, short=0.5, augmentation=Augmentation.none())
    ends = []
    for seed in range(200):
        heard = np.flatnonzero(window(seed, 10.0, options).samples)
        if len(heard):  # a fifth are silence
            ends.append((int(heard[-1]) + 1) / RATE)
    short = [end for end in ends if end < 9.9]
    assert 0.38 < len(short) / len(ends) < 0.62
    assert min(short) < 1.5
    assert max(short) > 8.5


@pytest.mark.slow
def test_shares_are_kept() -> None:
    """Silence, prompts and timestamps come as often as asked for."""
    options = replace(CLEAN, silent=0.2, prompt=0.5, timestamps=0.7, cut_start=0.0)
    made: list[Any] = [window(seed, 6.0, options) for seed in range(250)]
    spoken_windows = [one for one in made if one.text]
    assert 0.13 < 1 - len(spoken_windows) / 250 < 0.27
    assert 0.32 < sum(start_of(one) > 0 for one in spoken_windows) / len(spoken_windows) < 0.48  # 0.5 of 0.8
    assert 0.62 < sum(TOKENIZER.no_timestamps not in one.tokens for one in made) / 250 < 0.78


@pytest.mark.slow
def test_long_pauses() -> None:
    """Before the first utterance too, and what is said after them is answered as elsewhere."""
    made = [window(seed, 30.0, replace(CLEAN, long_pause=1.0, timestamps=1.0)) for seed in range(40)]
    first = [stamps(each)[0] / RATE for each in made if each.text]
    assert max(first) > 6.0
    assert all(each.text for each in made)
    assert all(
        stamps(each)[0] / RATE < 2.1 for each in (window(seed, 30.0, CLEAN) for seed in range(40)) if stamps(each)
    )
