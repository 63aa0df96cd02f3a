"""A transcript only grows, and its times rise; what of a verdict goes into it."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whispertide.methods.agreement.local_agreement import LocalAgreement
from whispertide.methods.agreement.whole_window import WholeWindow
from whispertide.options import DecodeOptions
from whispertide.recipes.recipe import Recipe
from whispertide.session_state import Change, SessionState, Transcript, drop_unlikely
from whispertide.streaming.repetition import BEFORE, CONTEXT
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.turn_state import Utterance
from whispertide.types import Span, Word

END = 10_000
words = st.lists(
    st.builds(Word, st.sampled_from([" a", " b"]), st.integers(0, 20_000), st.integers(0, 20_000)), max_size=6
)


def test_words_are_added_and_the_hypothesis_is_replaced() -> None:
    transcript = Transcript()
    a, b, c = Word(" A", 0, 10), Word(" b", 10, 20), Word(" c.", 20, 30)
    assert transcript.apply(Commit((), (a, b), 0), end=END) == Change((), (a, b))
    assert transcript.apply(Commit((a,), (b, c), 0), end=END) == Change((a,), (b, c))
    assert transcript.apply(Commit((b, c), (), 0), end=END) == Change((b, c), ())
    assert transcript.words == [a, b, c]
    assert transcript.text == "A b c."
    assert transcript.end == 30


@given(st.lists(st.tuples(words, words, st.booleans()), max_size=40))
def test_what_is_forgotten_changes_nothing_later(commits: list[tuple[list[Word], list[Word], bool]]) -> None:
    whole, short, end = Transcript(), Transcript(), 0
    for confirmed, hypothesis, forget in commits:
        end += 1_000
        commit = Commit(tuple(confirmed), tuple(hypothesis), 0)
        assert short.apply(commit, end=end) == whole.apply(commit, end=end)
        assert short.end == whole.end
        if forget:
            short.forget()
            assert short.words == whole.words[-CONTEXT:][-len(short.words) :]
            assert len(short.words) <= CONTEXT


def test_an_unchanged_hypothesis_is_no_news() -> None:
    transcript = Transcript()
    guess = (Word(" a", 0, 10),)
    assert transcript.apply(Commit((), guess, 0), end=END).hypothesis == guess
    assert transcript.apply(Commit((), guess, 0), end=END) == Change((), None)
    assert transcript.drop_hypothesis() == Change((), ())
    assert transcript.drop_hypothesis() == Change((), None)


def test_times_that_overlap_or_leave_the_audio_are_moved() -> None:
    transcript = Transcript()
    transcript.apply(Commit((Word(" a", 100, 300),), (), 0), end=1000)
    change = transcript.apply(
        Commit((Word(" b", 200, 250), Word(" c", 900, 1200)), (Word(" d", 1300, 1250),), 0), end=1000
    )
    assert [(w.start, w.end) for w in change.confirmed] == [(300, 300), (900, 1000)]
    assert [(w.start, w.end) for w in change.hypothesis or ()] == [(1000, 1000)]


@given(st.lists(st.tuples(words, words, st.integers(0, 3_000)), max_size=6))
def test_any_commits_make_a_transcript_in_order(commits: list[tuple[list[Word], list[Word], int]]) -> None:
    transcript = Transcript()
    end = 0
    for confirmed, hypothesis, more in commits:
        end += more
        before = list(transcript.words)
        change = transcript.apply(Commit(tuple(confirmed), tuple(hypothesis), 0), end=end)
        assert transcript.words == [*before, *change.confirmed]
        assert [w.text for w in change.confirmed] == [w.text for w in confirmed]
        shown = [*transcript.words, *transcript.hypothesis]
        assert all(0 <= w.start <= w.end <= end for w in shown)
        assert all(a.end <= b.start for a, b in pairwise(shown))


def test_a_copy_is_independent() -> None:
    transcript = Transcript([Word(" a", 0, 1)], (Word(" b", 1, 2),))
    copy = transcript.copy()
    transcript.apply(Commit((Word(" b", 1, 2),), (), 0), end=END)
    assert copy == Transcript([Word(" a", 0, 1)], (Word(" b", 1, 2),))


def spoken(text: str, probability: float) -> tuple[Word, ...]:
    return tuple(Word(f" {word}", at, at + 1, probability) for at, word in enumerate(text.split()))


MUTTERED = Commit(spoken("or as a", 0.1), spoken("by the", 0.1), 7, level=2)


def test_unlikely_words_are_neither_written_nor_shown() -> None:
    commit, chances = drop_unlikely(MUTTERED, (), 0, 0.5)
    assert commit == replace(MUTTERED, confirmed=(), hypothesis=())
    assert chances == (0.1, 0.1, 0.1)


def test_all_words_are_written_where_nothing_is_to_be_left_out() -> None:
    assert drop_unlikely(MUTTERED, (), 0, 0.0)[0] == MUTTERED


def test_what_is_not_shown_of_the_guess_tells_as_well() -> None:
    verdict = Commit(spoken("or as", 0.45), (), 0)
    assert drop_unlikely(verdict, (), 0, 0.5)[0].confirmed == verdict.confirmed, "two words tell nothing"
    assert drop_unlikely(replace(verdict, guess=spoken("a by", 0.1)), (), 0, 0.5)[0].confirmed == ()
    assert drop_unlikely(replace(verdict, guess=spoken("of the", 0.9)), (), 0, 0.5)[0].confirmed == verdict.confirmed


def test_words_of_the_utterance_before_tell_how_noisy_it_is_and_no_more() -> None:
    alone = Commit(spoken("seven", 0.1), (), 0)
    assert drop_unlikely(alone, (0.1,) * 5, 0, 0.5)[0] == alone
    assert drop_unlikely(alone, (0.1,) * 5, 5, 0.5)[0].confirmed == ()
    assert drop_unlikely(MUTTERED, (0.9,) * 12, 0, 0.5)[0].confirmed == MUTTERED.confirmed


def test_no_more_is_remembered_than_is_asked_for() -> None:
    _, chances = drop_unlikely(Commit(spoken("a " * 20, 0.9), (), 0), (0.1,) * 5, 0, 0.5)
    assert chances == (0.9,) * BEFORE


@pytest.mark.parametrize(("loop_guard", "shown"), [(True, 1), (False, 6)])
def test_the_guard_against_loops_takes_from_the_guess_alone(loop_guard: bool, shown: int) -> None:
    loop = spoken("you " * 6, 0.9)
    state = SessionState(Recipe("loops", policy=LocalAgreement(loop_guard=loop_guard)), DecodeOptions())
    policy = state.recipe.policy.start(0)
    state.turns.utterance = Utterance(0, 0, policy=policy, keep_from=0, last_end=0)
    result: RoundResult[object] = RoundResult(RoundPlan(0, Span(0, 320), WholeWindow()))
    assert len(state.filter_commit(Commit(loop, loop, 0), result, gated=False).confirmed) == 6
    assert len(state.filter_commit(Commit((), loop, 0), result, gated=False).hypothesis) == shown
