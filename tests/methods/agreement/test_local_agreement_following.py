"""What LocalAgreement tells the next round of what the last one heard."""

from dataclasses import replace

from oracle import speech
from scripted_agreement import WALK, Script, many, segment
from whispertide.decoding.draft import Reference
from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.agreement.whole_window import WholeWindow
from whispertide.streaming.searches import Beam, Greedy, Pruned, Verified
from whispertide.types import SAMPLE_RATE

S = SAMPLE_RATE
FOLLOWED = Pruned(align="first", recover=False)


def reference(script: Script, end: float) -> Reference | None:
    return script.planned(end).reference


def test_the_next_round_is_told_what_the_last_one_heard() -> None:
    script = Script(search=FOLLOWED)
    assert reference(script, 1.0) is None  # nothing was heard yet
    script.hear(1.7, WALK)
    assert reference(script, 2.5) == Reference((), 0, WALK, align="first", recover=False)
    newer = (*WALK[:2], *speech(("hole", 1.2, 1.6), ("now", 1.7, 2.2)))
    script.hear(2.5, newer)
    told = reference(script, 3.5)
    assert told is not None
    assert told.words == newer


def test_the_next_round_is_told_what_was_heard_even_if_something_else_was_confirmed() -> None:
    script = Script(search=FOLLOWED)
    script.hear(1.7, WALK)
    script.hear(2.0, WALK)
    otherwise = (*WALK[:1], *speech(("quite", WALK[1].start / S, WALK[1].end / S)), *WALK[2:])
    script.hear(2.5, otherwise)
    assert [kept.word for kept in script.state.confirmed][:2] == list(WALK[:2])
    told = reference(script, 3.0)
    assert told is not None
    assert told.words == otherwise


def test_as_published_the_next_round_is_told_what_was_shown() -> None:
    """Confirmed words as they were confirmed, then the newest guess (WhisperFlow)."""
    script = Script(search=replace(FOLLOWED, follows="shown"))
    script.hear(1.7, WALK)
    script.hear(2.0, WALK)
    confirmed = [kept.word for kept in script.state.confirmed]
    assert confirmed
    otherwise = (*speech(("quite", WALK[0].start / S, WALK[0].end / S)), *WALK[1:], *speech(("now", 2.0, 2.3)))
    script.hear(2.5, otherwise)
    told = reference(script, 3.0)
    assert told is not None
    kept = [kept.word for kept in script.state.confirmed]
    assert told.words == (*kept, *script.state.earlier[-1])
    assert told.words[0] == confirmed[0] != otherwise[0]
    assert told.words[-1] == otherwise[-1]
    assert (told.start, told.tokens, told.align, told.recover) == (script.state.start, (), "first", False)


def test_as_published_the_last_confirmed_word_is_always_told() -> None:
    script = Script(search=replace(FOLLOWED, follows="shown"))
    script.hear(1.7, WALK)
    script.hear(2.0, WALK)
    last = script.state.confirmed[-1].word
    script.state.start = 3 * S
    script.state.earlier = ()
    told = reference(script, 4.0)
    assert told is not None
    assert told.words == (last,)


def test_how_to_follow_is_what_the_search_says_now() -> None:
    script = Script(search=Beam())
    script.hear(1.7, WALK)
    assert reference(script, 2.0) is None
    following = {Pruned(align="time"): Reference(align="time"), Verified(): Reference(block=True)}
    for search, how in following.items():
        script.search = search
        told = reference(script, 2.0)
        assert told is not None
        assert told == replace(how, words=WALK)
    script.search = Greedy()
    assert reference(script, 2.0) is None


def test_silence_does_not_forget_what_was_heard() -> None:
    script = Script(search=FOLLOWED)
    script.hear(1.7, WALK)
    script.hear(2.5)
    told = reference(script, 3.0)
    assert told is not None
    assert told.words == WALK


def test_what_breaks_off_is_left_to_the_next_round_if_there_is_one() -> None:
    for policy, expected in ((LocalAgreement(), True), (LocalAgreement(reread=False), False)):
        assert Script(policy).planned(1).hearing == WholeWindow(reread=expected)
        assert Script(policy).planned(1, is_last=True).hearing == WholeWindow()


def test_without_a_search_that_follows_nothing_is_told() -> None:
    script = Script()
    script.hear(1.7, WALK)
    assert reference(script, 2.7) is None


def test_words_before_the_window_are_not_told() -> None:
    script = Script(LocalAgreement(trim_s=4.0), Pruned())
    words = many(12)
    parts = segment(words[:6], end=3 * S), segment(words[6:10], end=5 * S), segment(words[10:], end=6 * S)
    script.hear(6.2, *parts)
    script.hear(6.4, *parts)
    assert 0 < script.state.start <= words[-1].start
    told = reference(script, 7.0)
    assert told is not None
    assert told.words == tuple(word for word in words if word.start + word.end > 2 * script.state.start)
    script.state.start = 7 * S
    assert reference(script, 8.0) is None


def test_a_loop_is_not_told() -> None:
    script = Script(search=FOLLOWED)
    loop = speech(*(("no", i * 0.3, i * 0.3 + 0.3) for i in range(12)))
    script.hear(4.0, loop)
    script.hear(5.0, loop)
    assert script.state.confirmed
    assert any(not kept.trusted for kept in script.state.confirmed)
    told = reference(script, 6.0)
    words = told.words if told is not None else ()
    assert len(words) < len(script.state.confirmed)
