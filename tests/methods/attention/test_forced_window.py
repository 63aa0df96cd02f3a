"""The window of AlignAtt and `tide`: which words it holds, and which audio it keeps."""

import pytest

from policy_rounds import S, word
from whispertide.decoding.token_words import TokenWord
from whispertide.methods.attention.forced_window import AFTER_WORD, CONTEXT_CHARS, SKIPPED, UNSETTLED, ForcedWindow
from whispertide.streaming.trimming import MARGIN
from whispertide.types import FRAME_SAMPLES, align_down

WORDS = [word("one", 0.2, 0.6), word("two", 0.8, 1.2), word("three", 2.0, 2.6), word("four", 4.0, 4.4)]


def window(confirmed: int, *, words: list[TokenWord] = WORDS) -> ForcedWindow:
    state = ForcedWindow.begin(0)
    state.confirm(words, confirmed, loop_guard=True)
    return state


def texts(words: list[TokenWord]) -> str:
    return "".join(each.word.text for each in words)


def test_confirmed_words_are_the_prefix_and_the_others_the_guess() -> None:
    state = window(2)
    assert (texts(state.words), texts(list(state.guess)), texts(state.said)) == (" one two", " three four", " one two")
    assert (state.heard_to, state.said_to) == (round(1.2 * S), round(1.2 * S) + AFTER_WORD)
    state.confirm(WORDS[2:], 1, loop_guard=True)
    assert (texts(state.words), texts(list(state.guess))) == (" one two three", " four")


def test_without_words_nothing_was_said_in_it() -> None:
    state = ForcedWindow.begin(700)
    assert state.start == state.heard_to == state.said_to == align_down(700)


def test_attention_is_remembered_in_samples() -> None:
    state = ForcedWindow.begin(S)
    assert state.last_frame(-7) == -7
    state.note_attended(40)
    state.note_attended(None)  # nobody looked
    assert state.last_frame(-7) == 40
    state.move(3 * S)
    assert state.last_frame(-7) == 40 - 2 * S // FRAME_SAMPLES  # it has left the window


def test_a_step_is_what_came_since_the_round_before() -> None:
    state = ForcedWindow.begin(S)
    assert state.step(3 * S) == 2 * S
    state.ends.append(2 * S)
    assert state.step(3 * S) == S


class TestCut:
    def test_words_before_the_window_become_context(self) -> None:
        state = window(4)
        state.cut(round(1.5 * S), 10 * S, frontier=10 * S)
        assert (state.start, state.context, texts(state.words)) == (round(1.5 * S), " one two", " three four")

    def test_a_word_that_waits_stays_whole(self) -> None:
        state = window(2)
        state.cut(3 * S, 10 * S, frontier=10 * S)
        assert state.start <= WORDS[2].start - MARGIN
        assert texts(state.words) in ("", " two")

    def test_where_nothing_is_guessed_the_end_may_hold_a_word(self) -> None:
        state = window(4)
        state.cut(9 * S, 10 * S, frontier=5 * S)
        assert state.start <= 5 * S - UNSETTLED

    def test_the_last_word_keeps_its_end(self) -> None:
        state = window(4)
        state.cut(WORDS[3].end + AFTER_WORD // 2, 10 * S, frontier=10 * S)
        assert state.start == align_down(WORDS[3].start - MARGIN)
        assert texts(state.words) == " four"

    def test_audio_that_no_word_was_heard_in_is_kept(self) -> None:
        state = window(4)
        state.cut(9 * S, 6 * S, frontier=20 * S)
        assert state.start == 6 * S

    def test_it_never_goes_back(self) -> None:
        state = ForcedWindow.begin(5 * S)
        state.cut(0, 10 * S, frontier=10 * S)
        assert state.start == 5 * S


def test_what_a_decode_has_not_heard_stays_for_another() -> None:
    state = window(1)
    assert state.keep_from(8 * S, S, cut_short=False) == 8 * S
    assert state.keep_from(8 * S, S, cut_short=True) == state.said_to + SKIPPED + FRAME_SAMPLES
    state.said.clear()
    assert state.keep_from(2 * S, S, cut_short=True) == S  # this round alone has failed to hear what is new


class TestTooLong:
    def test_a_window_that_fits_is_left_alone(self) -> None:
        state = window(1)
        assert state.shorten(5 * S, 6 * S, least=S, frontier=5 * S, cut_short=False, loop_guard=True) == []
        assert state.start == 0

    def test_old_words_are_confirmed_for_room(self) -> None:
        state = window(0, words=[*WORDS, word("five", 7.0, 7.4)])
        state.note_attended(100)
        state.ends += [S, 6 * S]
        forced = state.shorten(8 * S, 6 * S, least=2 * S, frontier=8 * S, cut_short=False, loop_guard=True)
        assert (texts(forced), texts(list(state.guess))) == (" one two three four", " five")
        assert state.start == align_down(WORDS[3].start - MARGIN)  # heard again, it ties the next round to this one
        assert (texts(state.words), state.context) == (" four", " one two three")
        assert (state.attended, state.ends) == (None, [6 * S])

    @pytest.mark.parametrize(("frontier", "start"), [(8, 6), (6, 5), (4, 3), (1, 2)])
    def test_no_audio_goes_in_which_no_word_could_be_heard_yet(self, frontier: int, start: int) -> None:
        """But for the room that must be made."""
        state = window(0, words=WORDS[:1])
        state.shorten(8 * S, 6 * S, least=2 * S, frontier=frontier * S, cut_short=False, loop_guard=True)
        assert state.start == start * S

    def test_of_what_is_unheard_no_more_goes_than_must(self) -> None:
        state = ForcedWindow.begin(0)
        assert state.shorten(8 * S, 6 * S, least=4 * S, frontier=8 * S, cut_short=True, loop_guard=True) == []
        assert state.start == 2 * S


def test_a_window_that_is_reopened_begins_after_all_that_was_said() -> None:
    mark = word(".", 4.4, 4.4)
    state = window(4, words=[*WORDS, mark])  # of the guess there are only marks then
    state.note_attended(50)
    assert state.reopen(10 * S, loop_guard=True) == [mark]
    assert state.start == align_down(WORDS[3].end + AFTER_WORD)
    assert (state.words, state.context, state.attended, state.guess) == ([], "", None, ())
    assert texts(state.said) == " one two three four ."  # a copy of these is still known as one


def test_the_next_utterance_of_a_turn_knows_its_text() -> None:
    state = window(4)
    state.context = "x" * CONTEXT_CHARS
    after = ForcedWindow.begin(10 * S, state)
    assert after.context == ("x" * CONTEXT_CHARS + " one two three four")[-CONTEXT_CHARS:]
    assert after.words == after.said == []


def test_a_copy_is_independent() -> None:
    state = window(2)
    other = state.copy()
    other.ends.append(1)
    other.confirm(WORDS[2:], 2, loop_guard=True)
    assert (state.ends, texts(state.words), texts(state.said)) == ([], " one two", " one two")
