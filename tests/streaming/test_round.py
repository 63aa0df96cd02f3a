"""What of a policy's verdict is written."""

from dataclasses import replace

from whispertide.streaming.repetition import BEFORE
from whispertide.streaming.round import Commit, written
from whispertide.types import Word


def words(text: str, probability: float) -> tuple[Word, ...]:
    return tuple(Word(f" {word}", at, at + 1, probability) for at, word in enumerate(text.split()))


MUTTERED = Commit(words("or as a", 0.1), words("by the", 0.1), 7, level=2)


def test_unlikely_words_are_neither_written_nor_shown() -> None:
    commit, chances = written(MUTTERED, (), 0, 0.5)
    assert commit == replace(MUTTERED, confirmed=(), hypothesis=())
    assert chances == (0.1, 0.1, 0.1)


def test_all_words_are_written_where_nothing_is_to_be_left_out() -> None:
    assert written(MUTTERED, (), 0, 0.0)[0] == MUTTERED


def test_what_is_not_shown_of_the_guess_tells_as_well() -> None:
    verdict = Commit(words("or as", 0.45), (), 0)
    assert written(verdict, (), 0, 0.5)[0].confirmed == verdict.confirmed, "two words tell nothing"
    assert written(replace(verdict, guess=words("a by", 0.1)), (), 0, 0.5)[0].confirmed == ()
    assert written(replace(verdict, guess=words("of the", 0.9)), (), 0, 0.5)[0].confirmed == verdict.confirmed


def test_words_of_the_utterance_before_tell_how_noisy_it_is_and_no_more() -> None:
    alone = Commit(words("seven", 0.1), (), 0)
    assert written(alone, (0.1,) * 5, 0, 0.5)[0] == alone
    assert written(alone, (0.1,) * 5, 5, 0.5)[0].confirmed == ()
    assert written(MUTTERED, (0.9,) * 12, 0, 0.5)[0].confirmed == MUTTERED.confirmed


def test_no_more_is_remembered_than_is_asked_for() -> None:
    _, chances = written(Commit(words("a " * 20, 0.9), (), 0), (0.1,) * 5, 0, 0.5)
    assert chances == (0.9,) * BEFORE
