"""Which words wait: improbable ones near the end."""

from whispertide.streaming.repetition import waits

S = 16_000


def test_an_improbable_word_waits_until_there_is_audio_after_it() -> None:
    assert waits(0.4, 2 * S, round(2.9 * S), below=0.5, settle=S)
    assert not waits(0.4, 2 * S, 3 * S, below=0.5, settle=S)


def test_a_probable_word_does_not_wait() -> None:
    assert not waits(0.5, 2 * S, 2 * S, below=0.5, settle=S)


def test_without_doubt_no_word_waits() -> None:
    assert not waits(0.0, 2 * S, 2 * S, below=0.0, settle=S)
