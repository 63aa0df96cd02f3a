"""Windows out of speech without transcripts: of whole frames, a function of the dice, of every kind."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from small_training import spoken
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.augment import Augmentation
from whispertide_lab.training.shards import Utterance
from whispertide_lab.training.short_windows import ShortWindowOptions, Stretch, compose_stretch

QUIET = ShortWindowOptions(augmentation=replace(Augmentation.none(), level_db=(-6.0, -6.0)), ended=0.0)


def draw(dice: Dice) -> Utterance:
    return replace(spoken(int(dice.randint(6))), text="", words=None, language="de")


def stretches(count: int, options: ShortWindowOptions, many: int = 200) -> list[Stretch]:
    return [compose_stretch(draw, count, np.random.RandomState(number), options) for number in range(many)]


def test_lengths_are_whole_frames_and_half_of_them_long() -> None:
    counts = ShortWindowOptions().counts
    assert len(counts) == 24
    assert (counts[0], counts[-1]) == (8_000, 192_000)
    assert all(count % 320 == 0 for count in counts)
    assert list(counts) == sorted(set(counts))
    assert 4.0 < np.median(counts) / 16_000 < 4.6  # seconds


def test_a_window_is_a_function_of_its_dice() -> None:
    options = ShortWindowOptions()
    one, same, other = (compose_stretch(draw, 32_000, np.random.RandomState(seed), options) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.samples, same.samples)
    assert one.spans == same.spans
    assert not np.array_equal(one.samples, other.samples)


@pytest.mark.parametrize("count", [8_000, 24_000, 160_000])
def test_windows_are_as_long_as_asked_and_say_where_speech_is(count: int) -> None:
    for stretch in stretches(count, replace(QUIET, silent=0.0), 60):
        assert len(stretch.samples) == count
        assert stretch.language == "de"
        heard = np.zeros(count, bool)
        for first, last in stretch.spans:
            assert 0 <= first < last <= count
            heard[first:last] = True
        assert not stretch.samples[~heard].any(), "pauses are silent where nothing is added"


def edges(count: int = 24_000) -> dict[str, Callable[[Stretch], bool]]:
    def sounds(stretch: Stretch, at: int) -> bool:
        return any(first <= at < last for first, last in stretch.spans)

    return {
        "begins in a word": lambda stretch: sounds(stretch, 0),
        "begins in a pause": lambda stretch: not sounds(stretch, 0) and bool(stretch.spans),
        "ends in a word": lambda stretch: sounds(stretch, count - 1),
        "ends in a pause": lambda stretch: not sounds(stretch, count - 1) and bool(stretch.spans),
        "nothing is said": lambda stretch: not stretch.spans,
    }


def test_they_begin_and_end_anywhere() -> None:
    """Each kind of edge is found often enough to be learned."""
    found = stretches(24_000, replace(QUIET, silent=0.1))
    for name, holds in edges().items():
        assert sum(map(holds, found)) >= 8, name


def test_some_end_in_digital_silence_as_after_an_utterance() -> None:
    for stretch in stretches(64_000, replace(QUIET, ended=1.0, silent=0.0), 20):
        assert not stretch.samples[-16_000:].any()
        assert all(last <= 48_000 for _, last in stretch.spans)


def test_a_part_is_spoken_where_enough_of_an_utterance_is_in_it() -> None:
    stretch = Stretch(np.zeros(32_000, np.float32), ((8_000, 16_000),))
    assert stretch.is_spoken(0, 12_000)
    assert stretch.is_spoken(9_000, 10_000), "a window within an utterance, however short"
    assert not stretch.is_spoken(0, 8_500)
    assert not stretch.is_spoken(16_000, 32_000)
