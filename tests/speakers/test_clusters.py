"""Voices: which one a vector goes to, and when there is a new one."""

import numpy as np
import pytest

from whispertide.speakers.clusters import Voice, Voices
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


def apart(cosine: float, towards: int) -> FloatArray:
    """A direction with this cosine to the first one."""
    vector = np.zeros(12, np.float32)
    vector[0], vector[towards] = cosine, np.sqrt(1 - cosine**2)
    return vector


def test_a_voice_whose_first_vector_is_odd_has_one_number() -> None:
    voices, usual = Voices(4), apart(0.45, 1)
    assert voices.assign(apart(1, 1), 0) == 1
    assert [voices.assign(usual, key) for key in range(1, 9)] == [1] * 8
    assert len(voices.known) == 1


def test_a_voice_that_sounds_otherwise_in_each_turn_has_one_number() -> None:
    """Within a turn its vectors have a cosine of 0.65, between turns of 0.42."""
    voices, vectors = Voices(4), np.zeros((24, 33), np.float32)
    vectors[:, 0] = np.sqrt(0.42)
    for at in range(24):
        vectors[at, [1 + at // 3, 9 + at]] = np.sqrt([0.23, 0.35])
    assert {voices.assign(vector, key) for key, vector in enumerate(vectors)} == {1}


def test_two_alike_voices_have_two_numbers_where_each_is_much_like_itself() -> None:
    voices, first, second = Voices(4), apart(1, 1), apart(0.52, 1)
    for key in range(8):
        voices.assign(first, key)
    voices.assign(second, 8)
    assert [voices.assign(second, 9), voices.assign(first, 10), voices.assign(second, 11)] == [2, 1, 2]


def test_how_far_a_voice_reaches_depends_on_how_well_it_is_known_and_how_alike_its_vectors_are() -> None:
    """What a new voice's vector needs: a cosine of 0.32 with the only one, 0.59 with many that are all the same."""

    def reaches(voice: Voice) -> float:
        mean = voice.total / np.linalg.norm(voice.total)
        other = np.eye(len(mean), dtype=np.float32)[-1]
        angles = (np.float32(c) * mean + np.float32(np.sqrt(1 - c**2)) * other for c in np.linspace(0, 1, 1001))
        return next(voice.near(vector) for vector in angles if voice.likelier(vector) >= 0)

    once, often = Voice(apart(1, 1)), Voice(np.float32(50) * apart(1, 1), 50.0)
    loose = Voice(np.sum([apart(np.sqrt(0.4), 1 + n % 8) for n in range(48)], axis=0), 48.0)
    assert reaches(once) == pytest.approx(0.32, abs=0.01)
    assert reaches(often) == pytest.approx(0.59, abs=0.01)
    assert reaches(once) < reaches(loose) < reaches(often) - 0.08


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
