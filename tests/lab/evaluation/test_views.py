"""What a viewer saw, in written words."""

from evaluation_traces import pieces, trace
from whispertide_lab.evaluation.views import View, look


def test_confirmed_words_and_the_guess_after_them() -> None:
    viewing = look(trace((1.0, "", "The cat"), (2.0, "The", "cat, sat"), (3.0, "cat sat.", "")))
    assert viewing.words == ("The", "cat", "sat.")
    assert viewing.keys == ("the", "cat", "sat")
    assert viewing.views == (View(1.0, 0, ("the", "cat")), View(2.0, 1, ("cat", "sat")), View(3.0, 3, ()))
    assert viewing.end_s == 3.0


def test_pieces_with_their_own_spaces_become_words() -> None:
    viewing = look(pieces((1.0, [" a", " well"], ["-known"]), (2.0, ["-known", " man"], [])))
    assert viewing.words == ("a", "well-known", "man")
    assert viewing.views[0] == View(1.0, 1, ("well known",))  # half of the word is final: it is not
    assert viewing.views[1].fixed == 3


def test_words_that_the_normaliser_drops_have_no_key() -> None:
    viewing = look(trace((1.0, "", "um so -"), (2.0, "um so -", "")))
    assert viewing.keys == ("", "so", "")
    assert viewing.views[0].tail == ("so",)
    assert viewing.keyed(0) == [1]
    assert viewing.keyed(2) == []


def test_every_letter_is_a_word_where_a_language_has_no_spaces() -> None:
    """Whether a program shows letters, phrases or pieces with spaces makes no difference."""
    letters = look(trace((1.0, "", "今 天"), (2.0, "今 天", "天"), (3.0, "天 气", "")), "zh")
    phrases = look(pieces((1.0, [], [" 今天"]), (2.0, [" 今天"], ["天"]), (3.0, ["天气"], [])), "zh")
    assert letters == phrases
    assert letters.words == ("今", "天", "天", "气")
    assert letters.views[1] == View(2.0, 2, ("天",))


def test_views_at_the_same_moment_are_one() -> None:
    viewing = look(trace((1.0, "a", "x"), (1.0, "b", "y")))
    assert viewing.views == (View(1.0, 2, ("y",)),)


def test_nothing_shown() -> None:
    viewing = look(trace())
    assert viewing.words == ()
    assert viewing.end_s == 0.0
