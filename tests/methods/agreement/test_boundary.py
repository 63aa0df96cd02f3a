"""Old words are told from new ones."""

import numpy as np
import pytest

from each_row import each_row
from oracle import speech
from whispertide.methods.agreement import boundary
from whispertide.methods.agreement.boundary import first_fresh, fresh_by_time
from whispertide.streaming.repetition import normalise
from whispertide.types import SAMPLE_RATE, Word


def texts(words: tuple[Word, ...]) -> str:
    return "".join(word.text for word in words).strip()


def fresh(heard: tuple[Word, ...], confirmed: tuple[Word, ...], window_start: float = 0.0) -> str:
    last = confirmed[-1].end if confirmed else 0
    old = first_fresh(heard, confirmed, window_start=round(window_start * SAMPLE_RATE), last_time=last, key=normalise)
    return texts(heard[old:])


def by_time(heard: tuple[Word, ...], confirmed: tuple[Word, ...]) -> str:
    return texts(fresh_by_time(heard, confirmed, confirmed[-1].end if confirmed else 0, normalise))


WALK = speech(("we", 0.5, 0.8), ("walk", 0.8, 1.2), ("home", 1.2, 1.6))
NO = speech(("oh", 0.5, 0.8), ("no", 1.0, 1.3))

# what is heard, what is confirmed, what is new
BOTH = {
    "the same words and one more": ((*WALK, *speech(("now", 1.7, 2.0))), WALK, "now"),
    "the same words again": (WALK, WALK, ""),
    "nothing": ((), WALK, ""),
    "nothing is confirmed": (WALK, (), "we walk home"),
    "times that moved a little": (
        speech(("we", 0.45, 0.7), ("walk", 0.75, 1.1), ("home", 1.25, 1.7), ("now", 1.7, 2.0)),
        WALK,
        "now",
    ),
    "a new word that begins a little early": (speech(("home", 1.2, 1.6), ("now", 1.52, 2.0)), WALK[2:], "now"),
    "an older window that hears more": ((*WALK, *speech(("now", 1.7, 2.0))), WALK[1:], "now"),
    "the last word misheard": (speech(("we", 0.5, 0.8), ("walk", 0.8, 1.2), ("hole", 1.2, 1.6)), WALK, ""),
    "silence before the new words": ((*WALK, *speech(("now", 9.0, 9.4))), WALK, "now"),
}


@each_row("case", BOTH)
def test_both_rules(case: str) -> None:
    heard, confirmed, new = BOTH[case]
    assert fresh(heard, confirmed) == new
    assert by_time(heard, confirmed) == new


def test_by_time_removes_a_repeated_boundary_of_up_to_five_words() -> None:
    confirmed = speech(*((str(i), i * 0.3, i * 0.3 + 0.3) for i in range(6)))
    for n in range(1, 7):
        # The last n words are heard once more, with times right after those confirmed.
        again = tuple(Word(word.text, word.start + 4800 * n, word.end + 4800 * n) for word in confirmed[-n:])
        new = Word(" new", again[-1].end, again[-1].end + 4800)
        assert by_time((*confirmed, *again, new), confirmed) == ("new" if n <= 5 else texts((*again, new)))


def test_by_time_takes_the_shortest_repetition() -> None:
    confirmed = speech(("a", 0.0, 0.3), ("b", 0.3, 0.6), ("b", 0.6, 0.9))
    assert by_time(speech(("b", 0.9, 1.2), ("b", 1.2, 1.5), ("c", 1.5, 1.8)), confirmed) == "b c"


def test_by_time_leaves_repetitions_more_than_a_second_away() -> None:
    assert by_time((*WALK, *speech(("home", 2.5, 2.8))), WALK) == ""
    assert by_time((*WALK, *speech(("home", 2.7, 3.0))), WALK) == "home"


def test_a_word_said_twice_is_heard_twice() -> None:
    heard = (*NO, *speech(("no", 1.35, 1.6)))
    assert fresh(heard, NO) == "no"
    assert by_time(heard, NO) == ""  # what the alignment is for
    assert fresh((*heard, *speech(("no", 1.65, 1.9), ("thanks", 2, 2.3))), heard) == "no thanks"


def test_a_repeated_word_that_the_window_cut_off_is_not_taken_for_its_copy() -> None:
    confirmed = speech(("no", 0.9, 1.3), ("no", 1.3, 1.7))
    heard = speech(("no", 1.27, 1.68), ("no", 1.64, 2.1))
    assert fresh(heard, confirmed, window_start=0.9) == "no"


def test_words_written_otherwise_the_second_time_are_no_news() -> None:
    confirmed = speech(("I'm", 0.4, 0.6), ("gonna", 0.6, 1.0))
    heard = speech(("I'm", 0.4, 0.6), ("going", 0.6, 0.85), ("to", 0.85, 1.0), ("leave", 1.05, 1.4))
    assert fresh(heard, confirmed) == "leave"
    confirmed = speech(("recognise", 0.5, 1.0), ("speech", 1.0, 1.6))
    heard = speech(("wreck", 0.5, 0.8), ("a", 0.8, 0.9), ("nice", 0.9, 1.2), ("beach", 1.2, 1.6), ("today", 1.7, 2.0))
    assert fresh(heard, confirmed) == "today"


def test_a_fragment_at_the_front_of_the_window_is_old() -> None:
    heard = speech(("alk", 0.9, 1.15), ("home", 1.2, 1.6), ("now", 1.7, 2.0))
    assert fresh(heard, WALK[2:], window_start=0.9) == "now"


def heard_again(rng: np.random.Generator) -> tuple[list[Word], list[Word], int, int]:
    """A talk of few and common words as two rounds hear it: what is heard now, what is confirmed, where the window
    begins, and how many of the heard words are old.

    Times differ by 50 ms; some old words are misheard, left out or split in two; the window may cut the first one off,
    or begin before all that is confirmed.
    """
    old, new = int(rng.integers(1, 8)), int(rng.integers(0, 5))
    talk: list[Word] = []
    at = 0.3
    for _ in range(old + new):
        at += float(rng.choice([0.02, 0.02, 0.02, 0.3]))
        end = at + float(rng.uniform(0.15, 0.5))
        text = str(rng.choice(["no", "yes", "we", "walk", "home", "now", "the", "a"]))
        talk.append(Word(f" {text}", round(at * SAMPLE_RATE), round(end * SAMPLE_RATE)))
        at = end
    cut = rng.random() < 0.3
    heard: list[Word] = []
    heard_old = 0
    for place, word in enumerate(talk):
        luck = rng.random() if place < old else 0.5
        if luck < 0.06 or (place == 0 and cut and luck < 0.6):
            continue
        start, end = (round(time + rng.normal(0, SAMPLE_RATE / 20)) for time in (word.start, word.end))
        start, end = max(start, 0), max(start + SAMPLE_RATE // 20, end)
        middle = (start + end) // 2
        if luck > 0.94:
            copies = [Word(f" other{place}", start, end)]
        elif luck > 0.9:
            copies = [Word(f"{word.text}x", start, middle), Word(" y", middle, end)]
        else:
            copies = [Word(word.text, start, end)]
        heard += copies
        heard_old += len(copies) * (place < old)
    confirmed = talk[:old]
    window_start = confirmed[0].start if cut else confirmed[0].start - SAMPLE_RATE // 10
    if old > 3 and not cut and rng.random() < 0.3:
        confirmed = confirmed[2:]
    return heard, confirmed, window_start, heard_old


@pytest.mark.slow
def test_old_and_new_are_told_apart_nearly_always() -> None:
    """Of these thousand cases `fresh_by_time` gets 898 right, and the alignment 981: its costs are weighed for them."""
    rng = np.random.default_rng(7)
    right = 0
    for _ in range(1000):
        heard, confirmed, start, old = heard_again(rng)
        last = confirmed[-1].end
        right += first_fresh(heard, confirmed, window_start=start, last_time=last, key=normalise) == old
    assert right >= 979


# --- the weights, one by one: times in hundredths of a second ---------------------------------------------------------


def said(start: float, end: float, text: str = "a") -> Word:
    return Word(f" {text}", round(start * SAMPLE_RATE / 100), round(end * SAMPLE_RATE / 100))


@each_row(
    ("start", "old", "new"),
    [(-30, 0, 0.9), (-20, 0, 0.9), (-15, 0, 0.45), (-10, 0, 0), (10, 0, 0), (15, 0.45, 0), (30, 0.9, 0)],
)
def test_a_word_on_the_wrong_side_costs_the_more_the_further_it_is(start: float, old: float, new: float) -> None:
    word = said(500 + start, 500 + start + 0.01)
    last = round(500 * SAMPLE_RATE / 100)
    assert boundary._late(word, last) == pytest.approx(old)
    assert boundary._early(word, last) == pytest.approx(max(new, 0.4 if start < 0 else 0))


@each_row(
    ("start", "end", "share"),
    [(0, 10, 1), (40, 60, 0.5), (45, 65, 0.25), (50, 60, 0), (60, 80, 0), (50, 50, 0), (40, 40, 1)],
)
def test_what_lies_in_confirmed_audio(start: float, end: float, share: float) -> None:
    time = round(50 * SAMPLE_RATE / 100)
    assert boundary._share_before(said(start, end), time) == pytest.approx(share)
    late = said(start + 50, end + 50)
    assert boundary._early(late, 2 * time) == pytest.approx(max(0.4 * share, 0.9 * min(max(40 - start, 0) / 10, 1)))


@each_row(
    ("old", "new", "same", "cost"),
    [
        ((100, 120), (100, 120), True, 0),
        ((100, 120), (110, 130), True, 0.2),
        ((110, 130), (100, 120), True, 0.2),
        ((100, 120), (120, 130), True, 0.3),
        ((100, 120), (200, 220), True, 0.5),
        ((100, 120), (100, 120), False, 0.5),
        ((100, 120), (110, 130), False, 1.25),
        ((100, 120), (105, 110), False, 0.5),
        ((100, 140), (130, 150), False, 1.25),
        ((100, 120), (120, 130), False, 2),
        ((100, 120), (200, 220), False, 2),
        ((100, 100), (100, 100), False, 2),
    ],
)
def test_a_word_for_another(old: tuple[float, float], new: tuple[float, float], same: bool, cost: float) -> None:
    assert boundary._replacement(said(*old), said(*new), same=same) == pytest.approx(cost)


def test_words_that_are_not_heard_again_and_words_that_are_new() -> None:
    start = 100 * SAMPLE_RATE // 100
    for at, cost in ((90, 0.2), (109.9, 0.2), (110, 1.0), (200, 1.0)):
        assert boundary._omission(said(at, at + 20), start) == cost
    last = 200 * SAMPLE_RATE // 100
    for at, cost in ((80, 0), (90, 0), (90.1, 0.3), (190, 0.65), (200, 1.0), (300, 1.0)):
        assert boundary._insertion(said(at, at + 20), start, last) == pytest.approx(cost)


def test_no_more_than_the_last_words_are_aligned() -> None:
    confirmed = tuple(said(50 * place, 50 * place + 40, f"w{place}") for place in range(boundary.TAIL + 1))
    edits = boundary._edits([], confirmed[1:], 0, 0, str)
    assert edits == [boundary.TAIL]
    assert boundary._edits([confirmed[3]], confirmed[3:5], 0, confirmed[4].end, str) == [2.0, 1.0]
    again = (*confirmed, said(9_000, 9_040, "new"))
    assert (
        texts(again[first_fresh(again, confirmed, window_start=0, last_time=confirmed[-1].end, key=normalise) :])
        == "new"
    )


@pytest.mark.parametrize(("start", "fresh_words"), [(190, 0), (190.1, 1), (200, 1)])
def test_by_time_words_are_old_that_begin_a_tenth_before(start: float, fresh_words: int) -> None:
    word = said(start, start + 30, "other")
    assert len(fresh_by_time([word], [said(150, 200)], 2 * SAMPLE_RATE, normalise)) == fresh_words


@pytest.mark.parametrize(("start", "fresh_words"), [(299.9, 0), (300, 1)])
def test_by_time_a_copy_is_looked_for_within_a_second(start: float, fresh_words: int) -> None:
    assert len(fresh_by_time([said(start, start + 30)], [said(150, 200)], 2 * SAMPLE_RATE, normalise)) == fresh_words
