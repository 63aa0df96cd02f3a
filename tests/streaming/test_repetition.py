"""Loops are cut down, people are not; improbable words near the end wait, and stretches of them are left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from oracle import speech
from whispertide.streaming.repetition import (
    BEFORE,
    MAX_PHRASE,
    NEAR,
    NOISY,
    cut_loops,
    normalise,
    waits,
    without_unlikely,
)
from whispertide.types import Word


def said(text: str, at: float = 0.0, pace: float = 0.35) -> tuple[Word, ...]:
    """The words of `text`, one every `pace` seconds."""
    return speech(*((word, at + i * pace, at + (i + 1) * pace) for i, word in enumerate(text.split())))


def kept(words: tuple[Word, ...], context: tuple[Word, ...] = ()) -> str:
    return "".join(word.text for word in cut_loops(context, words, normalise).words).strip()


HUMAN = [
    "no no no",
    "No, no, no, no!",
    "very very good",
    "that that is is",
    "ha ha ha ha ha",
    "I know I know I know",
    "it is what it is what it is",
    "row row row your boat gently down the stream",
    "thank you thank you so much",
]


@each_row("text", HUMAN)
@each_row("pace", [0.15, 0.3, 0.8])
def test_people_may_repeat_themselves(text: str, pace: float) -> None:
    assert kept(said(text, pace=pace)) == text


@each_row(
    ("phrase", "limit"),
    [
        ("you", 6),
        ("thank you", 4),
        ("thanks for watching", 4),
        ("we will be back", 3),
        ("please subscribe to my channel", 3),
    ],
)
def test_nobody_says_it_that_often(phrase: str, limit: int) -> None:
    loop = said(" ".join([phrase] * 20))
    assert kept(loop) == " ".join([phrase] * limit)
    assert kept((*loop[: len(phrase.split()) * limit],)) == " ".join([phrase] * limit)


@pytest.mark.parametrize("phrase", ["you", "thank you", "thanks for watching", "the end of the world"])
def test_nobody_says_it_that_fast(phrase: str) -> None:
    loop = said(" ".join([phrase] * 5), pace=0.04)
    assert kept(loop) == phrase


@pytest.mark.parametrize(("phrase", "copies"), [("no", 2), ("thank you", 2), ("thanks for watching", 1)])
def test_two_copies_of_a_word_or_two_may_come_as_fast_as_they_like(phrase: str, copies: int) -> None:
    assert kept(said(" ".join([phrase] * 2), pace=0.04)) == " ".join([phrase] * copies)


def test_ten_words_in_a_second_may_be_said_and_more_may_not() -> None:
    for pace, copies in ((0.1, 4), (0.098, 1)):
        for at in (0.0, 600.0):
            assert kept(said("thank you " * 4, at=at, pace=pace)) == " ".join(["thank you"] * copies)


def test_words_piled_up_in_one_place_are_not_spoken() -> None:
    spoken = said("thank you")
    piled = tuple(Word(word.text, 11_200, 11_210) for _ in range(2) for word in spoken)
    slow_end = speech(("thank", 6.0, 6.5), ("you", 6.5, 7.0))
    assert kept((*spoken, *piled, *slow_end)) == "thank you thank you"


def test_one_copy_whose_times_fell_into_one_place_may_have_been_spoken() -> None:
    spoken = said("thank you " * 2)
    piled = tuple(Word(word.text, spoken[-1].end, spoken[-1].end + 10) for word in spoken[:2])
    assert kept((*spoken, *piled, *said("bye", at=3.0))) == "thank you thank you thank you bye"


def test_what_follows_a_loop_is_kept() -> None:
    words = (*said("so"), *said("okay " * 12, at=1.0), *said("let us begin", at=8.0))
    assert kept(words) == "so okay okay okay okay okay okay let us begin"


def test_a_broken_last_copy_goes_with_the_loop() -> None:
    words = said("thanks for watching " * 9 + "thanks for")
    assert kept(words) == " ".join(["thanks for watching"] * 4)
    going_on = said("thanks for watching " * 9 + "thanks for coming")  # in mid-text it may begin something else
    assert kept(going_on) == " ".join(["thanks for watching"] * 4) + " thanks for coming"


def test_a_loop_is_followed_over_rounds() -> None:
    confirmed = said("well " + "thank you " * 4)
    assert kept(said("thank you " * 3, at=4.0), confirmed) == ""
    assert kept(said("thank you all", at=4.0), confirmed[:-2]) == "thank you all"


def test_what_is_left_of_a_loop_is_suspect() -> None:
    guarded = cut_loops((), (*said("fine"), *said("okay " * 12, at=1.0), *said("next", at=8.0)), normalise)
    assert guarded.suspect == (False, *(True,) * 6, False)


def test_what_may_become_a_loop_is_suspect_also_where_it_is_confirmed_already() -> None:
    guarded = cut_loops(said("oh no no"), said("no never never", at=2.0), normalise)
    assert guarded.suspect_context == (False, True, True)
    assert guarded.suspect == (True, False, False)


def test_case_and_punctuation_do_not_hide_a_loop() -> None:
    assert kept(said("Okay. okay, OKAY! okay okay. Okay okay Okay")) == "Okay. okay, OKAY! okay okay. Okay"


def test_long_phrases_are_found_up_to_the_limit() -> None:
    phrase = " ".join(f"w{i}" for i in range(MAX_PHRASE))
    assert kept(said(" ".join([phrase] * 5))) == " ".join([phrase] * 3)


@each_row(
    ("context", "guess", "shown"),
    [
        ("", "She were she rich she rich she rich", "She were she rich"),
        ("worked in the", "field every every every", "field every"),
        ("", "He gave every day every day every", "He gave every day"),
        ("no", "no no never", "never"),
        ("", "no no never", "no no never"),
    ],
)
def test_of_a_guess_whatever_looks_like_a_loop_is_shown_once(context: str, guess: str, shown: str) -> None:
    before = said(context)
    words = cut_loops(before, said(guess, at=0.35 * len(before)), normalise, guess=True).words
    assert "".join(word.text for word in words).strip() == shown


def test_no_words() -> None:
    assert cut_loops((), (), normalise).words == ()
    assert cut_loops(said("a b a b a b a b a b"), (), normalise).words == ()


S = 16_000


def test_an_improbable_word_waits_until_there_is_audio_after_it() -> None:
    assert waits(0.4, 2 * S, round(2.9 * S), below=0.5, settle=S)
    assert not waits(0.4, 2 * S, 3 * S, below=0.5, settle=S)


def test_a_probable_word_does_not_wait() -> None:
    assert not waits(0.5, 2 * S, 2 * S, below=0.5, settle=S)


def test_without_a_least_probability_no_word_waits() -> None:
    assert not waits(0.0, 2 * S, 2 * S, below=0.0, settle=S)


# --- unlikely words ---------------------------------------------------------------------------------------------------


def likely(*chances: float) -> list[Word]:
    return [Word(f" {number}", number, number + 1, chance) for number, chance in enumerate(chances)]


def written(
    *chances: float,
    before: tuple[float, ...] = (),
    own: int = 99,
    after: tuple[float, ...] = (),
    below: float = 0.5,
) -> str:
    left = without_unlikely(likely(*chances), below, before=before, own=own, after=likely(*after))
    return "".join(word.text.strip() for word in left)


@each_row(
    ("chances", "expected"),
    [
        ((0.1, 0.2, 0.1, 0.2), ""),
        ((0.1, 0.2, 0.9, 0.2, 0.1), ""),
        ((0.1, 0.2, 0.1, 0.2, 0.1, 0.9, 0.9, 0.9), "567"),
        ((0.4, 0.4, 0.4, 0.4, 0.1, 0.9, 0.9, 0.4), "67"),
        ((0.1,), "0"),
        ((0.1, 0.1), "01"),
        ((0.49, 0.45, 0.49), ""),
        ((0.49, 0.49, 0.49, 0.55), "0123"),
    ],
)
def test_words_in_an_unlikely_stretch_are_left_out(chances: tuple[float, ...], expected: str) -> None:
    assert written(*chances, below=0.48) == expected


def test_where_one_hears_well_nothing_is_left_out() -> None:
    assert written(0.1, 0.1, 0.1, before=(0.9,) * 12) == "012"
    assert written(0.1, 0.1, 0.1, before=(0.9,) * 12 + (0.1,) * 6) == ""
    assert written(0.1, 0.1, 0.1, before=(0.1,) * 12 + (0.9,) * 12) == "012", "what is long ago does not count"


def test_one_or_two_words_alone_stay_whatever_was_said_before() -> None:
    assert written(0.1, before=(0.1,) * 12, own=0) == "0"
    assert written(0.1, before=(0.1,) * 12, own=1) == "0"
    assert written(0.1, before=(0.1,) * 12, own=2) == ""
    assert written(0.1, 0.1, 0.1, before=(0.9,) * 12, own=0) == "012", "nor does a noise begin with three words"
    assert written(0.1, 0.1, 0.1, before=(0.1,) * 12, own=0) == ""


def test_how_likely_the_words_around_are_counts() -> None:
    assert written(0.3, before=(0.1, 0.1)) == ""
    assert written(0.3, before=(0.1, 0.1, 0.9, 0.9)) == "0"
    assert written(0.4, before=(0.2, 0.5, 0.5), after=(0.9, 0.9)) == "0"
    assert written(0.4, before=(0.2, 0.5, 0.5), after=(0.1, 0.9)) == ""


@given(st.lists(st.floats(0, 1), max_size=30), st.floats(0, 1))
def test_words_stay_in_order_and_none_goes_that_is_likely_with_all_around_it(
    chances: list[float], below: float
) -> None:
    said = likely(*chances)
    left = without_unlikely(said, below)
    assert [word for word in said if word in left] == list(left)
    for at, word in enumerate(said):
        near, recent = chances[max(0, at - NEAR) : at + NEAR + 1], chances[max(0, at - BEFORE) : at + 1]
        if min(near) > below or min(recent) > NOISY:
            assert word in left
    assert without_unlikely(said, 0.0) == tuple(said)


@given(st.lists(st.floats(0, 1), max_size=30), st.integers(0, 30))
def test_unlikely_words_may_come_in_two_portions(chances: list[float], cut: int) -> None:
    """If the next words are known at the cut."""
    said = likely(*chances)
    first, second = said[:cut], said[cut:]
    known = tuple(word.probability for word in first[-BEFORE:])
    parts = (
        without_unlikely(first, 0.5, after=second[:NEAR]),
        without_unlikely(second, 0.5, before=known, own=len(known)),
    )
    assert parts[0] + parts[1] == without_unlikely(said, 0.5)
