"""Where LocalAgreement cuts its window, by scripted hypotheses."""

from oracle import speech
from scripted_agreement import Script, feed, many, segment
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.streaming.trimming import MARGIN
from whispertide.types import SAMPLE_RATE, Word

S = SAMPLE_RATE


def test_a_long_window_is_cut_at_a_confirmed_segment_end() -> None:
    script = Script()
    feed(script, many(30))
    assert script.state.start == 0  # 15 s are not too long
    words = many(32)
    script.hear(16, words[:10], words[10:24], words[24:])
    assert script.state.start == 12 * S


def test_the_cut_is_a_whole_frame_and_not_after_the_segment() -> None:
    script = Script()
    words = many(32, start=0.01)
    feed(script, words[:30])
    script.hear(16.5, words[:24], words[24:])
    assert script.state.start % 320 == 0
    assert 0 <= words[23].end - script.state.start < 320


def test_nothing_is_cut_without_a_second_segment_or_a_confirmed_word() -> None:
    script = Script()
    feed(script, many(40), per_segment=100)
    assert script.state.start == 0
    script = Script()
    for i in range(20):
        script.hear(i + 1.0, many(4, text=f"x{i}"), many(2 * i, start=2, text=f"y{i}"))
    assert script.state.start == 0


def test_a_cut_never_reaches_unconfirmed_words_nor_the_last_confirmed_one() -> None:
    script = Script()
    words = many(20)
    script.hear(10, words)
    script.hear(11, words[:12], words[12:])
    assert script.state.confirmed[-1].word == words[19]
    script.hear(16, words, many(10, start=10))
    # The segment ends with the confirmed words: the last of them stays in the window.
    assert script.state.start <= words[19].start - MARGIN
    assert script.state.start > words[18].start


def test_sentences_are_cut_when_something_was_confirmed() -> None:
    script = Script(LocalAgreement(trim="sentence", trim_s=8.0))
    words = list(many(30))
    for i in (5, 11):
        words[i] = Word(words[i].text + ".", words[i].start, words[i].end)
    script.hear(7, tuple(words[:14]))
    script.hear(7.5, tuple(words[:14]))
    assert script.state.start == 0
    script.hear(9, (*words[:14], *many(2, start=7, text="new")))  # confirms nothing
    assert script.state.start == 0
    script.hear(9.5, (*words[:14], *many(1, start=7, text="new")))
    assert script.state.start == 6 * S  # after the second sentence; the third has begun


def test_a_window_in_which_nothing_agrees_is_confirmed_at_the_cap() -> None:
    script = Script()
    for end in range(1, 28):
        commit = script.hear(end, many(2 * end, text=f"r{end}x"))
        assert commit.confirmed == ()
    assert script.policy.limit(script.state) == 28 * S
    words = many(56, text="last")
    commit = script.hear(28, words)
    # All but the last quarter, which may still change; none is lost and none is cut off.
    assert commit.confirmed == words[:42]
    assert commit.hypothesis == words[42:]
    assert commit.keep_from == script.state.start <= words[41].start
    assert script.policy.limit(script.state) > 28 * S
    after = script.hear(29, words[41:])
    assert after.confirmed == words[42:]


def test_the_cap_prefers_a_cut_at_what_is_confirmed() -> None:
    script = Script()
    words = many(20)
    script.hear(10, words)
    script.hear(11, words)
    commit = script.hear(28, (*words, *many(20, start=18, text="new")))
    assert commit.confirmed == ()
    assert words[18].start < script.state.start <= words[19].start


def test_a_full_window_that_a_segments_end_makes_room_in_is_cut_no_further() -> None:
    script = Script(LocalAgreement(trim_s=28.0, hard_cap_s=28.0))  # an eighth of it is room enough: 3.5 s
    first, second = many(7), many(20, start=4.0, text="v")
    for end in (27, 28):
        script.hear(end, segment(first, end=round(3.5 * S)), segment(second))
    assert script.state.start == round(3.5 * S)
    assert len(script.state.confirmed) == 27
    assert script.state.earlier == ((),)


def test_what_turns_out_to_be_a_loop_is_not_trusted_any_more() -> None:
    script = Script()
    for end in (2.0, 3.0):
        script.hear(end, speech(("oh", 0.2, 0.5), ("no", 0.6, 0.9), ("no", 1.0, 1.3)))
    assert [kept.trusted for kept in script.state.confirmed] == [True, True, True]
    script.hear(4.0, speech(("oh", 0.2, 0.5), *(("no", at, at + 0.3) for at in (0.6, 1.0, 2.0, 2.4))))
    assert [kept.trusted for kept in script.state.confirmed] == [True, False, False]
