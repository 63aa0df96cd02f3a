"""Labels in a session: on confirmed words and guesses, in snapshots, and nowhere where nobody asked."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from session_steps import RECIPE, exact, push
from whispertide.errors import OptionError
from whispertide.events import Confirmed, Event, Hypothesis, from_dict, to_dict
from whispertide.options import DecodeOptions
from whispertide.session import Session
from whispertide.types import FloatArray, Word


@dataclass
class CountingTrack:
    """Labels all words by how many portions were heard; `settled` says of which words that stays."""

    portions: list[int] = field(default_factory=list)
    settled: Callable[[Word], bool] = lambda word: True

    def feed(self, samples: FloatArray) -> None:
        self.portions.append(len(samples))

    def label(self, words: Iterable[Word]) -> tuple[Word, ...]:
        return tuple(replace(word, speaker=len(self.portions)) for word in words)

    def is_settled(self, word: Word) -> bool:
        return self.settled(word)

    def snapshot(self) -> Any:
        return list(self.portions)

    def restore(self, state: Any) -> None:
        self.portions = list(state)


def labelled(track: CountingTrack) -> Session:
    return Session(RECIPE, exact(), options=DecodeOptions(speakers=4), speakers=track)  # type: ignore[arg-type]


def words_of(events: list[Event], kind: type[Confirmed | Hypothesis]) -> list[Word]:
    return [word for event in events if isinstance(event, kind) for word in event.words]


def test_confirmed_words_and_guesses_have_labels_and_confirmed_ones_keep_theirs() -> None:
    track = CountingTrack()
    session = labelled(track)
    first = push(session, 2.0)
    early = words_of(first, Confirmed)
    assert early
    assert all(word.speaker is not None for word in [*early, *words_of(first, Hypothesis)])
    later = push(session, 4.0) + session.finish()
    assert session.transcript.words[: len(early)] == early
    assert max(word.speaker or 0 for word in words_of(later, Confirmed)) > max(word.speaker or 0 for word in early)


def test_a_word_is_a_guess_until_its_label_is_settled_and_then_has_the_later_one() -> None:
    usual, waiting = CountingTrack(), CountingTrack()
    waiting.settled = lambda word: len(waiting.portions) > 4
    first, early = push(session := labelled(waiting), 2.0), words_of(push(labelled(usual), 2.0), Confirmed)
    assert early
    assert not words_of(first, Confirmed)
    guess = [event for event in first if isinstance(event, Hypothesis)][-1].words
    assert [word.text for word in guess[: len(early)]] == [word.text for word in early]
    later = words_of(push(session, 4.0), Confirmed)
    assert [word.text for word in later[: len(early)]] == [word.text for word in early]
    assert min(word.speaker or 0 for word in later) > 4


def test_words_wait_for_the_one_before_them_and_for_no_label_after_the_end() -> None:
    never, usual = CountingTrack(settled=lambda word: word.start > 8_000), CountingTrack()
    session, other = labelled(never), labelled(usual)
    events = push(session, 4.0)
    assert words_of(events, Hypothesis)
    assert not words_of(events, Confirmed)
    ended = words_of(session.finish(), Confirmed)
    said = words_of(push(other, 4.0) + other.finish(), Confirmed)
    assert [word.text for word in ended] == [word.text for word in said]


def test_a_session_that_goes_on_from_a_snapshot_has_the_same_labels() -> None:
    session, other = (labelled(CountingTrack(settled=lambda word: word.end < 20_000)) for _ in range(2))
    push(session, 2.0)
    other.restore(session.snapshot())
    assert push(other, 4.0) + other.finish() == push(session, 4.0) + session.finish()


def test_without_speakers_a_word_says_nothing_of_them() -> None:
    events = push(Session(RECIPE, exact()), 2.0)
    assert all(word.speaker is None for word in words_of(events, Confirmed))
    assert all("speaker" not in word for event in map(to_dict, events) for word in event.get("words", ()))


def test_labels_survive_json() -> None:
    event = Confirmed(3, 16_000, (Word(" a", 0, 8_000, 0.5, 2), Word(" b", 8_000, 16_000, 0.5)))
    assert [word.get("speaker") for word in to_dict(event)["words"]] == [2, None]
    assert from_dict(to_dict(event)) == event


def test_speakers_are_chosen_when_a_session_begins() -> None:
    session = labelled(CountingTrack())
    with pytest.raises(OptionError, match="speakers"):
        session.configure(speakers=2)
    session.configure(prompt="names", speakers=4)


@pytest.mark.parametrize("wrong", [-1, 21, True, "two"])
def test_impossible_numbers_are_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="speakers"):
        DecodeOptions(speakers=wrong)
