"""Voices: which one a vector goes to, and when there is a new one."""

import numpy as np

from whispertide.speakers.clusters import Voices
from whispertide.types import FloatArray


def direction(*parts: float) -> FloatArray:
    vector = np.array([*parts, *[0.0] * (6 - len(parts))], np.float32)
    return vector / np.float32(np.linalg.norm(vector))


FIRST, SECOND, THIRD = direction(1), direction(0, 1), direction(0, 0, 1)


def test_one_voice_is_the_first() -> None:
    voices = Voices(4)
    assert [voices.assign(FIRST, key) for key in range(5)] == [1] * 5
    assert len(voices.known) == 1


def test_a_new_voice_waits_for_a_second_vector_and_takes_the_first_one_along() -> None:
    voices = Voices(4)
    voices.assign(FIRST, 0)
    assert (voices.assign(SECOND, 1), voices.moved) == (1, ())
    assert (voices.assign(SECOND, 2), voices.moved) == (2, (1,))
    assert (voices.assign(FIRST, 3), voices.moved) == (1, ())
    assert voices.assign(SECOND, 4) == 2


def test_one_odd_moment_is_no_voice() -> None:
    voices = Voices(4)
    for key in range(3):
        voices.assign(FIRST, key)
    voices.assign(SECOND, 3)
    assert [voices.assign(FIRST, key) for key in range(4, 8)] == [1] * 4
    assert len(voices.known) == 1


def test_there_are_no_more_than_asked_for() -> None:
    voices = Voices(2)
    numbers = [voices.assign(vector, key) for key, vector in enumerate([FIRST, SECOND, SECOND, *[THIRD] * 6])]
    assert set(numbers) == {1, 2}
    assert len(voices.known) == 2


def test_two_at_once_go_to_the_nearer_one() -> None:
    voices = Voices(4)
    for key, vector in enumerate([FIRST, FIRST, SECOND, SECOND]):
        voices.assign(vector, key)
    assert voices.assign(direction(1, 0.6), 9) == 1
    assert voices.assign(direction(0.6, 1), 10) == 2
    assert len(voices.known) == 2


def test_a_voice_that_changes_slowly_stays_the_same() -> None:
    voices = Voices(4)
    turned = [direction(np.cos(angle), np.sin(angle)) for angle in np.linspace(0, 1.2, 400)]
    assert {voices.assign(vector, key) for key, vector in enumerate(turned)} == {1}


def test_a_copy_is_independent() -> None:
    voices = Voices(4)
    voices.assign(FIRST, 0)
    copy = voices.copy()
    voices.assign(SECOND, 1)
    voices.assign(SECOND, 2)
    assert len(copy.known) == 1
    assert copy.assign(SECOND, 1) == 1


def test_forgotten_voices_leave_nothing_and_their_numbers_are_not_given_again() -> None:
    voices = Voices(4)
    for key, vector in enumerate([FIRST, SECOND, SECOND]):
        voices.assign(vector, key)
    emptied = voices.emptied()
    assert (emptied.known, emptied.waiting) == ([], [])
    assert emptied.assign(SECOND, 3) == 3
    assert emptied.emptied().before == 3
