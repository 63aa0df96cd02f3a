"""A transcript only grows, and its times rise."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from whispertide.session_state import Change, Transcript
from whispertide.streaming.repetition import CONTEXT
from whispertide.streaming.round import Commit
from whispertide.types import Word

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
