"""Which words wait: improbable ones near the end."""

from whispertide.streaming.doubt import Doubt

S = 16_000


def test_an_improbable_word_waits_until_there_is_audio_behind_it() -> None:
    doubt = Doubt(0.5, S)
    assert doubt.waits(0.4, 2 * S, round(2.9 * S))
    assert not doubt.waits(0.4, 2 * S, 3 * S)


def test_a_probable_word_does_not_wait() -> None:
    assert not Doubt(0.5, S).waits(0.5, 2 * S, 2 * S)


def test_without_doubt_no_word_waits() -> None:
    assert not Doubt().waits(0.0, 2 * S, 2 * S)
