"""Windows for hush words: they end as those of a stream do, and the answer is what can be heard."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from small_training import nano, spoken
from whispertide.types import SAMPLE_RATE
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.augment import Augmentation
from whispertide_lab.training.hush_windows import HushWindowOptions, compose_hush
from whispertide_lab.training.shards import Utterance
from whispertide_lab.training.windows import Window

PLAIN = Augmentation.none()
CLEAN = HushWindowOptions(silent=0, prompt=0, augmentation=PLAIN)


def draw(dice: Dice) -> Utterance:
    return spoken(int(dice.randint(6)))


def window(seed: int, options: HushWindowOptions) -> Window:
    return compose_hush(draw, nano().tokenizer, np.random.RandomState(seed), options)


def silence_after(made: Window) -> float:
    """Seconds."""
    return (len(made.samples) - 1 - int(np.flatnonzero(np.abs(made.samples) > 1e-4)[-1])) / SAMPLE_RATE


@given(seed=st.integers(0, 10**6))
def test_an_answer_is_what_can_be_heard(seed: int) -> None:
    made, eot = window(seed, CLEAN), nano().tokenizer.eot
    duration = len(made.samples) / SAMPLE_RATE
    assert 0 < duration <= CLEAN.longest_s + CLEAN.tail_s
    assert made.targets[-1] == eot
    said = [token for token in made.targets if 0 <= token < eot]
    assert nano().tokenizer.decode(said).strip() == made.text
    places = made.places[(made.places[:, 0] >= 0) & (made.targets < eot)]  # of words, not of timestamps
    assert (places[:, 1] <= duration + 1e-6).all()
    assert (np.diff(places[:, 0]) >= 0).all()
    for start, end in places:
        assert np.abs(made.samples[round(start * SAMPLE_RATE) : round(end * SAMPLE_RATE)]).max() > 0.05


def test_whole_utterances_end_after_their_last_word() -> None:
    made = [
        window(seed, HushWindowOptions(silent=0, truncated=0, tail_s=0.3, augmentation=PLAIN)) for seed in range(30)
    ]
    assert all(one.text[-1] in ".?" for one in made)
    tails = [silence_after(one) for one in made]
    assert max(tails) <= 0.3 + 0.03
    assert max(tails) - min(tails) > 0.15


def test_truncated_ones_end_anywhere_in_the_speech() -> None:
    made = [window(seed, HushWindowOptions(silent=0, truncated=1, augmentation=PLAIN)) for seed in range(40)]
    assert sum(one.text[-1] not in ".?" for one in made) > 20
    assert float(np.median([silence_after(one) for one in made])) < 0.03  # the silence between two words


def test_both_kinds_of_answers_come_and_the_given_token_does_not_count() -> None:
    tokenizer = nano().tokenizer
    made = [window(seed, CLEAN) for seed in range(30)]
    plain = [one for one in made if tokenizer.no_timestamps in one.tokens]
    stamped = [one for one in made if tokenizer.no_timestamps not in one.tokens]
    assert 5 < len(plain) < 25
    assert all(tokenizer.no_timestamps not in one.targets for one in made)
    assert all((one.targets >= tokenizer.timestamp_begin).sum() >= 2 for one in stamped)


def test_what_was_said_before_may_precede_the_answer() -> None:
    tokenizer = nano().tokenizer
    made = [window(seed, HushWindowOptions(silent=0, prompt=1.0)) for seed in range(10)]
    assert all(one.tokens[0] == tokenizer.sot_prev for one in made)
    for one in made:
        asked = one.tokens.tolist().index(tokenizer.sot)
        assert (one.targets[:asked] == -1).all()


def test_silence_is_answered_with_no_speech() -> None:
    made = window(0, HushWindowOptions(silent=1.0, prompt=0))
    assert made.text == ""
    assert made.targets[0] == nano().tokenizer.no_speech


def test_speech_without_word_times_is_never_cut() -> None:
    def untimed(dice: Dice) -> Utterance:
        return spoken(2, timed=False)

    texts = {compose_hush(untimed, nano().tokenizer, np.random.RandomState(seed), CLEAN).text for seed in range(20)}
    assert texts <= {spoken(2).text, ""}
    assert spoken(2).text in texts


def test_a_window_is_a_function_of_the_dice() -> None:
    one, other, another = (window(seed, HushWindowOptions()) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.samples, other.samples)
    np.testing.assert_array_equal(one.targets, other.targets)
    assert not np.array_equal(one.samples, another.samples)
