"""What holds for every stream, tested on random speech, random portions and a model that is told the truth."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from oracle import Oracle, audio_between, make_gate, plain
from slow_rows import slow_but
from whispertide.events import Confirmed, End, Event, Hypothesis, Lag, RoundStats, SpeechStart, SpeechStop, TurnEnd
from whispertide.methods.agreement.local_agreement import AgreementState, LocalAgreement
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.round import Commit, RoundResult
from whispertide.streaming.schedule import Recorded
from whispertide.types import SAMPLE_RATE, Word


@dataclass(frozen=True)
class Talk:
    """What was said, and how many samples of audio there are."""

    words: tuple[Word, ...]
    duration: int
    seed: int


@st.composite
def talks(draw: st.DrawFn, max_words: int = 20) -> Talk:
    """Words of 0.2 to 0.6 s, some said two or three times in a row, with no, short, long and very long pauses."""
    gap = st.one_of(
        st.just(0),
        st.integers(0, 4_000),
        st.integers(0, 4_000),
        st.integers(12_000, 48_000),
        st.sampled_from([20 * SAMPLE_RATE, 45 * SAMPLE_RATE]),
    )
    shape = st.tuples(gap, st.integers(3_200, 9_600), st.sampled_from([1, 1, 1, 1, 2, 3]))
    items = draw(st.lists(shape, max_size=max_words))
    words: list[Word] = []
    at = draw(st.integers(0, 20_000))
    for number, (pause, length, copies) in enumerate(items):
        at += pause
        for _ in range(copies):
            words.append(Word(f" w{number}", at, at + length))
            at += length
    return Talk(tuple(words), at + draw(st.integers(800, 20_000)), draw(st.integers(0, 10**6)))


def portions(draw: st.DrawFn, total: int) -> list[int]:
    """Sizes of pushes that make up `total` samples."""
    choices = draw(st.lists(st.one_of(st.integers(1, 60_000), st.integers(8_000, 20_000)), min_size=1, max_size=8))
    sizes: list[int] = []
    while total > 0:
        # Tiny portions all along would only be slow.
        sizes.append(min(max(choices[len(sizes) % len(choices)], total // 200), total))
        total -= sizes[-1]
    return sizes


BY_NAME = {
    "default": get_recipe("whisper-streaming"),
    "best-effort": get_recipe("whisper-streaming").replace(step_s=0.3, schedule="best-effort"),
    "sentence": get_recipe("whisper-streaming").replace(trim="sentence", trim_s=6, hard_cap_s=12),
    "three": get_recipe("whisper-streaming").replace(agreement=3, trim_s=4, hard_cap_s=10),
    "pruned": get_recipe("whisper-streaming").replace(search="pruned", trim_s=4),
    "turns": get_recipe("whisper-streaming").replace(vad_turn_s=1.5),
}
RECIPES = list(BY_NAME.values())


def build(talk: Talk, recipe: Recipe, *, gated: bool = False, agreeable: bool = True, **more: Any) -> Session:
    oracle = Oracle(talk.words, talk.seed, agreeable=agreeable)
    return Session(recipe, oracle, make_gate(talk.words) if gated else None, **more)


def play(session: Session, sizes: Iterable[int], flush_at: Sequence[int] = ()) -> list[Event]:
    """Push portions; flush where asked, whatever the portions are."""
    events: list[Event] = []
    stops = sorted(flush_at)
    for size in sizes:
        end = session.received + size
        while stops and stops[0] <= end:
            events += session.push(audio_between(session.received, stops.pop(0)))
            events += session.flush()
        events += session.push(audio_between(session.received, end))
    return events + session.finish()


def push(session: Session, sizes: Iterable[int]) -> list[Event]:
    """Push audio in portions of those sizes; the session may go on."""
    return [event for size in sizes for event in session.push(audio_between(session.received, session.received + size))]


def confirmed(events: Iterable[Event]) -> list[Word]:
    return [word for event in events if isinstance(event, Confirmed) for word in event.words]


def said(words: Iterable[Word]) -> list[str]:
    return [plain(word.text) for word in words]


def without_stats(events: Iterable[Event]) -> list[Event]:
    return [replace(e, stats=RoundStats()) if isinstance(e, Confirmed | Hypothesis) else e for e in events]


def said_by(events: Iterable[Event]) -> list[Event]:
    """All but what depends on lateness."""
    return [replace(event, seq=0) for event in without_stats(events) if not isinstance(event, Lag)]


def gaps(talk: Talk) -> list[int]:
    """Samples at which nobody speaks, with a little room on both sides."""
    return [(a.end + b.start) // 2 for a, b in pairwise(talk.words) if b.start - a.end > 3_200]


Build = Callable[..., Session]  # like `build`; where rounds may take long, `slow_s` says how long


def check_every_word(build: Build, recipe: Recipe, data: st.DataObject, gated: bool, **told: Any) -> None:
    talk = data.draw(talks())
    flush_at = data.draw(st.lists(st.sampled_from(gaps(talk)), max_size=3, unique=True)) if gaps(talk) else []
    session = build(talk, recipe, gated=gated, **told)
    events = play(session, data.draw(st.composite(portions)(talk.duration)), flush_at)
    assert said(session.transcript.words) == said(talk.words)
    assert confirmed(events) == session.transcript.words
    assert session.transcript.hypothesis == ()
    assert [e.seq for e in events] == list(range(len(events)))
    assert isinstance(events[-1], End)


def check_recorded(build: Build, recipe: Recipe, data: st.DataObject, gated: bool) -> None:
    talk = data.draw(talks())
    live = build(talk, recipe, gated=gated, slow_s=4.0)
    happened = play(live, data.draw(st.composite(portions)(talk.duration)))
    again = build(talk, recipe, gated=gated, schedule=Recorded(live.boundaries, live.loads))
    assert said_by(play(again, data.draw(st.composite(portions)(talk.duration)))) == said_by(happened)


def check_not_live(build: Build, recipe: Recipe, data: st.DataObject, gated: bool, slow_s: float) -> None:
    talk = data.draw(talks())
    sizes = data.draw(st.composite(portions)(talk.duration))
    fast, slow = (build(talk, recipe, gated=gated, slow_s=each, live=False) for each in (0.0, slow_s))
    assert without_stats(play(slow, sizes)) == without_stats(play(fast, sizes))
    assert (slow.boundaries, slow.loads) == (fast.boundaries, fast.loads)


def check_restored(build: Build, recipe: Recipe, data: st.DataObject, gated: bool) -> None:
    talk = data.draw(talks())
    sizes = data.draw(st.composite(portions)(talk.duration))
    here = data.draw(st.integers(0, len(sizes)))
    session = build(talk, recipe, gated=gated)
    push(session, sizes[:here])
    kept = session.snapshot()
    future = play(session, sizes[here:])
    for again in (session, build(talk, recipe, gated=gated)):
        again.restore(kept)
        assert play(again, sizes[here:]) == future


def survives(build: Build, recipe: Recipe, seed: int) -> bool:
    """Whether every word is said once of speech without pauses, each word twice in a row."""
    words = tuple(Word(f" w{i // 2}", 8_000 + i * 4_000, 12_000 + i * 4_000) for i in range(80))
    talk = Talk(words, words[-1].end + 8_000, seed)
    session = build(talk, recipe)
    play(session, [7_000] * (talk.duration // 7_000 + 1))
    return said(session.transcript.words) == said(words)


@pytest.mark.parametrize("name", slow_but(BY_NAME, "default", "turns"))
@quick(5)
@given(data=st.data(), gated=st.booleans())
def test_every_word_is_confirmed_once_and_in_order(name: str, gated: bool, data: st.DataObject) -> None:
    check_every_word(build, BY_NAME[name], data, gated)


@pytest.mark.slow
@quick(6)
@given(data=st.data(), gated=st.booleans())
def test_a_model_that_never_hears_the_same_twice_loses_nothing_either(data: st.DataObject, gated: bool) -> None:
    talk = data.draw(talks())
    session = build(talk, RECIPES[0].replace(hard_cap_s=10, trim_s=5), gated=gated, agreeable=False)
    play(session, data.draw(st.composite(portions)(talk.duration)))
    assert said(session.transcript.words) == said(talk.words)


@quick(6)
@given(data=st.data(), gated=st.booleans(), recipe=st.sampled_from(RECIPES))
def test_portions_do_not_matter_for_recorded_boundaries(data: st.DataObject, gated: bool, recipe: Recipe) -> None:
    talk = data.draw(talks())
    flush_at = data.draw(st.lists(st.sampled_from(gaps(talk)), max_size=2, unique=True)) if gaps(talk) else []
    live = build(talk, recipe, gated=gated)
    happened = without_stats(play(live, data.draw(st.composite(portions)(talk.duration)), flush_at))
    for sizes in ([talk.duration], data.draw(st.composite(portions)(talk.duration))):
        again = build(talk, recipe, gated=gated, schedule=Recorded(live.boundaries))
        assert without_stats(play(again, sizes, flush_at)) == happened
        assert again.boundaries == live.boundaries


@pytest.mark.slow
@quick(6)
@given(data=st.data(), gated=st.booleans(), recipe=st.sampled_from(RECIPES))
def test_portions_do_not_matter_for_any_boundaries(data: st.DataObject, gated: bool, recipe: Recipe) -> None:
    talk = data.draw(talks())
    ends = sorted(data.draw(st.sets(st.integers(1, talk.duration), max_size=20)))
    runs = [
        without_stats(play(build(talk, recipe, gated=gated, schedule=Recorded(tuple(ends))), sizes))
        for sizes in ([talk.duration], data.draw(st.composite(portions)(talk.duration)))
    ]
    assert runs[0] == runs[1]


@quick(6)
@given(data=st.data(), gated=st.booleans(), recipe=st.sampled_from(RECIPES))
def test_what_is_confirmed_is_only_added_to_and_lies_in_the_audio(
    data: st.DataObject, gated: bool, recipe: Recipe
) -> None:
    talk = data.draw(talks())
    session = build(talk, recipe, gated=gated)
    before: list[Word] = []
    for size in data.draw(st.composite(portions)(talk.duration)):
        events = session.push(audio_between(session.received, session.received + size))
        assert session.transcript.words[: len(before)] == before
        assert session.transcript.words[len(before) :] == confirmed(events)
        before = list(session.transcript.words)
        shown = [*before, *session.transcript.hypothesis]
        assert all(0 <= word.start <= word.end <= session.received for word in shown)
        assert all(a.end <= b.start for a, b in pairwise(shown))
        assert all(event.at <= session.received for event in events)


@quick(6)
@given(data=st.data(), gated=st.booleans(), recipe=st.sampled_from(RECIPES))
def test_a_restored_session_has_the_same_future(data: st.DataObject, gated: bool, recipe: Recipe) -> None:
    check_restored(build, recipe, data, gated)


@quick(6)
@given(data=st.data())
def test_speech_starts_and_stops_alternate_around_the_words(data: st.DataObject) -> None:
    talk = data.draw(talks())
    session = build(talk, RECIPES[0], gated=True)
    events = play(session, data.draw(st.composite(portions)(talk.duration)))
    marks = [e for e in events if isinstance(e, SpeechStart | SpeechStop | TurnEnd)]
    kinds = [type(e) for e in marks]
    assert kinds == [SpeechStart, SpeechStop, TurnEnd] * (len(kinds) // 3)
    spans = [
        (a.start, b.end)
        for a, b in zip(marks[::3], marks[1::3], strict=True)
        if isinstance(a, SpeechStart) and isinstance(b, SpeechStop)
    ]
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert all(any(start <= w.start and w.end <= end for start, end in spans) for w in talk.words)


# --- the properties can fail ------------------------------------------------------------------------------------------


class Forgetful(LocalAgreement):
    """Confirms in the last round only what was agreed on, as whisper_streaming's users know it."""

    def apply(self, state: AgreementState, result: RoundResult[Any]) -> Commit:
        commit = super().apply(state, result)
        return replace(commit, confirmed=commit.confirmed[:-1]) if result.plan.is_last else commit


class Hasty(LocalAgreement):
    """Confirms whatever it hears."""

    def _agreed(self, state: AgreementState, fresh: Sequence[Word], end: int) -> int:
        return len(fresh)


class Careless(LocalAgreement):
    """Cuts right at the end of what is confirmed."""

    def apply(self, state: AgreementState, result: RoundResult[Any]) -> Commit:
        commit = super().apply(state, result)
        if commit.confirmed:
            state.start = max(state.start, state.last_time - state.last_time % 320)
        return replace(commit, keep_from=state.start)


@pytest.mark.parametrize("broken", [Forgetful(), Hasty(), Careless(), LocalAgreement(boundary="time")])
def test_a_broken_policy_is_caught(broken: LocalAgreement) -> None:
    assert not all(survives(build, RECIPES[0].replace(policy=broken), seed) for seed in range(10))


@pytest.mark.slow
def test_the_same_speech_survives_the_real_policy() -> None:
    assert all(survives(build, RECIPES[0], seed) for seed in range(10))
