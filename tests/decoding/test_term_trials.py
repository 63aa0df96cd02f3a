"""Trials of key terms: what is fed ahead, what of it is granted, and when nothing more is tried."""

from collections.abc import Callable, Sequence

import numpy as np

from few_words import PIECES, FewWords
from scripted_decoder import EOT, SIZE
from whispertide.decoding.key_terms import TRIED, KeyTerms, Words
from whispertide.decoding.term_trials import TermTrials
from whispertide.types import FloatArray

TOKENIZER = FewWords()
WORDS = Words(TOKENIZER)  # type: ignore[arg-type]
YORK = tuple(TOKENIZER.encode(" york"))
YO, RK = PIECES.index(" yo"), PIECES.index("rk")


def terms(*texts: str, bonus: float = 2.0) -> KeyTerms:
    return KeyTerms([(text, TOKENIZER.encode(text)) for text in texts], WORDS, bonus=bonus, farthest=6.0)


def row(**chances: float) -> FloatArray:
    """Log-probabilities by piece; `end` is the end of the text, "_" a space."""
    found = np.full(SIZE, -12.0, np.float32)
    for piece, chance in chances.items():
        found[EOT if piece == "end" else PIECES.index(piece.replace("_", " "))] = np.log(chance)
    return found


def after(*rows: FloatArray) -> Callable[[Sequence[int]], FloatArray]:
    """By how many tokens of the trial have been fed."""
    return lambda tokens: rows[len(tokens)]


SPLIT = KeyTerms([(" york", (YO, RK))], WORDS, bonus=2.0, farthest=6.0)


def test_a_term_that_may_come_is_fed_first() -> None:
    trials = TermTrials(SPLIT)
    near = row(_new=0.7, _yo=0.2)
    assert not trials.look(SPLIT.start, (), after(near), room=8)
    fed = trials.trial
    assert fed == (YO, RK)
    assert not trials.is_granted
    # what was fed ahead lies there now
    assert trials.look(SPLIT.start, fed, after(near, row(rk=0.6, er=0.3), row(end=0.9)), room=8)
    assert not trials.trial
    assert trials.is_granted
    token, shown = trials.take(near)
    assert (token, shown) == (YO, np.log(np.float32(0.7)))  # no more than the likeliest has
    assert trials.is_granted
    assert trials.take(row(rk=0.6))[0] == RK
    assert not trials.is_granted


def test_what_is_granted_is_not_looked_for_again() -> None:
    trials = TermTrials(SPLIT)
    trials.look(SPLIT.start, (YO, RK), after(row(_new=0.7, _yo=0.2), row(rk=0.9), row(end=0.9)), room=8)

    def nobody(_: Sequence[int]) -> FloatArray:
        raise AssertionError("it is decided")

    assert trials.look(SPLIT.start, (), nobody, room=8)


def test_a_term_that_was_refused_is_tried_again_at_the_next_place() -> None:
    trials = TermTrials(SPLIT)
    near, other = row(_new=0.7, _yo=0.2), row(er=0.98)
    assert trials.look(SPLIT.start, (YO, RK), after(near, other, other), room=8)
    assert not trials.is_granted
    assert trials.look(SPLIT.start, (), after(near), room=8)  # refused here
    trials.move()
    assert not trials.look(SPLIT.start, (), after(near), room=8)


def test_a_term_for_which_there_is_no_room_is_left_out() -> None:
    trials = TermTrials(SPLIT)
    assert trials.look(SPLIT.start, (), after(row(_new=0.7, _yo=0.2)), room=1)
    assert (trials.trial, trials.is_granted) == ((), False)


def test_no_term_begins_where_the_text_ends_or_where_it_is_far() -> None:
    for likely in (row(end=0.9, _yo=0.05), row(_new=0.999, _yo=0.0001)):
        trials = TermTrials(SPLIT)
        assert trials.look(SPLIT.start, (), after(likely), room=8)
        assert trials.trial == ()


def test_only_so_many_are_tried_at_a_place() -> None:
    known = terms(" new", " york", " nut", " gnu", " zo", " kyo")
    trials = TermTrials(known)
    likely = row(s=0.5, _new=0.1, _york=0.1, _nut=0.1, _gnu=0.1, _zo=0.05, _kyo=0.05)
    runs = 0
    while not trials.look(known.start, trials.trial, after(likely, row(s=0.99)), room=8):
        runs += 1
        assert runs <= TRIED
    assert not trials.is_granted
