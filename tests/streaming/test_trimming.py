"""Where long windows are cut."""

from hypothesis import given
from hypothesis import strategies as st

from oracle import speech
from whispertide.streaming.trimming import MARGIN, forced_cut, sentence_cut
from whispertide.types import SAMPLE_RATE, Span, Word

S = SAMPLE_RATE


def test_the_cut_is_at_the_end_of_the_last_sentence_but_one() -> None:
    words = speech(("One.", 0, 1), ("Two", 1, 2), ("three.”", 2, 3), ("Four", 3, 4), ("five", 4, 5))
    assert sentence_cut(words) == 3 * S
    assert sentence_cut(words[:4]) == 3 * S
    assert sentence_cut(words[:3]) == 1 * S  # the sentence that just ended counts as the last
    assert sentence_cut(words[3:]) is None
    assert sentence_cut(words[2:3]) is None
    assert sentence_cut(()) is None


def test_sentences_end_with_the_marks_of_their_script() -> None:
    words = speech(("「はい。」", 0, 1), ("نعم؟", 1, 2), ("ہاں۔", 2, 3), ("हाँ।", 3, 4), ("five", 4, 5))
    assert [sentence_cut(words[: count + 1]) for count in range(1, 5)] == [S, 2 * S, 3 * S, 4 * S]


def test_a_full_window_is_cut_at_its_widest_pause() -> None:
    words = speech(("a", 5, 6), ("b", 6.2, 7), ("c", 7, 8), ("d", 9.5, 10), ("e", 10, 11), ("f", 26, 27))
    cut = forced_cut(words, Span(0, 28 * S), least=3 * S)
    # Not between e and f: e is confirmed too, as the pause after it is the widest.
    assert (cut.confirm, cut.cut) == (5, 10 * S - MARGIN)
    cut = forced_cut(words[:4], Span(0, 28 * S), least=3 * S)
    assert (cut.confirm, cut.cut) == (4, round(9.5 * S) - MARGIN)
    pause_early = (*words[:3], *speech(*((str(i), i + 0.5, i + 1.5) for i in range(9, 27))))
    cut = forced_cut(pause_early, Span(0, 28 * S), least=3 * S)
    assert (cut.confirm, cut.cut) == (3, 7 * S - MARGIN)
    even = speech(*((str(i), i, i + 1) for i in range(28)))
    assert forced_cut(even, Span(0, 28 * S), least=3 * S).confirm == 21  # the last quarter is not settled


def test_a_full_window_without_words_keeps_its_last_quarter() -> None:
    cut = forced_cut((), Span(S, 29 * S), least=3 * S)
    assert (cut.confirm, cut.cut) == (0, 22 * S)


def test_words_that_only_now_begin_are_kept_with_their_audio() -> None:
    words = speech(("late", 26, 26.5))
    cut = forced_cut(words, Span(0, 28 * S), least=3 * S)
    assert (cut.confirm, cut.cut) == (0, 21 * S)


def test_no_audio_of_a_word_that_waits_is_cut() -> None:
    cut = forced_cut(speech(("aaaah", 0, 2), ("late", 20, 22)), Span(0, 28 * S), least=3 * S)
    assert (cut.confirm, cut.cut) == (1, 20 * S - MARGIN)


def test_a_word_that_claims_the_whole_window_is_confirmed() -> None:
    cut = forced_cut(speech(("aaaah", 0, 28)), Span(0, 28 * S), least=3 * S)
    assert (cut.confirm, cut.cut) == (1, 21 * S)


def test_words_of_the_last_quarter_wait_also_where_more_room_is_wanted_than_there_can_be() -> None:
    words = speech(("a", 0.2, 0.6), ("b", 0.7, 1.1), ("c", 1.2, 1.5), ("cut", 1.8, 2.2))
    cut = forced_cut(words, Span(0, round(2.2 * S)), least=2 * S)
    assert (cut.confirm, cut.cut) == (3, round(1.2 * S) - MARGIN)


@given(st.lists(st.tuples(st.integers(0, 8000), st.integers(0, 16_000)), max_size=60), st.integers(0, 50_000))
def test_room_is_always_made_and_nothing_unconfirmed_is_cut(steps: list[tuple[int, int]], start: int) -> None:
    window = Span(start, start + 8 * S)
    words: list[Word] = []
    at = start
    for gap, length in steps:
        at += gap
        if at >= window.end:
            break
        words.append(Word(f" w{len(words)}", at, min(at + length, window.end)))
        at += length
    cut = forced_cut(words, window, least=S)
    assert window.start + S <= cut.cut <= window.end - len(window) // 4
    assert all(word.start >= cut.cut for word in words[cut.confirm :])
