"""What holds for every stream under the policies that watch attention: nothing lost, nothing said twice."""

import pickle
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from listening_oracle import MANGLED, ListeningOracle
from oracle import audio_between, make_gate
from slow_rows import slow_but
from test_session_properties import (
    Talk,
    check_every_word,
    check_not_live,
    check_recorded,
    check_restored,
    confirmed,
    play,
    portions,
    said,
    survives,
    talks,
)
from whispertide.decoding.guards import Frontier
from whispertide.decoding.token_words import TokenWord
from whispertide.events import Event, Hypothesis, Lag, TurnEnd
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.methods.attention.steadiness import FEATURES, Rule
from whispertide.methods.attention.tide import Tide
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.choice import field_types
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.types import SAMPLE_RATE, FloatArray, Word, to_samples

SIMUL, NPUSPER, TIDE = get_recipe("simulstreaming"), get_recipe("npusper"), get_recipe("tide")
WHISPERKIT = get_recipe("whisperkit")
# Trusts what stands before the frontier and half a second away from the end.
WARY = {"firm": 20.0, "frontier_0.5s": 60.0, "one": -77.0}
WARY_RULE = Rule(tuple(WARY.get(name, 0.0) for name in FEATURES)).text()
ALIGN_ATT = {
    "simulstreaming": SIMUL.replace(truncate="last-word"),
    "short segments": SIMUL.replace(truncate="last-word", step_s=0.4, hard_cap_s=8),
    "wide margin": SIMUL.replace(margin_s=1.0, step_s=0.7, hard_cap_s=12),
    "tide": TIDE,
    "tide, likely words": TIDE.replace(drop_below=0.45),
    "tide, hasty": TIDE.replace(step_s=0.1, window_s=2.0, carry=1, hard_cap_s=6),
    "tide, learned": TIDE.replace(max_revision_rate=0.1, rule=WARY_RULE),
    "tide, no guess": TIDE.replace(lookahead_tokens=0, overload_s=0.5),
}
GROUNDED = {
    "npusper": NPUSPER,
    "two": NPUSPER.replace(way=2, step_s=1.0, finish_word=True),
    "short": NPUSPER.replace(way=2, step_s=0.5, carry_most_s=2.0, hard_cap_s=6),
}
HELD = {
    "whisperkit": WHISPERKIT,
    "full": WHISPERKIT.replace(cut="full", step_s=0.5, hard_cap_s=8),
    "holds three": WHISPERKIT.replace(hold=3, step_s=0.3, hard_cap_s=6),
}
RECIPES = ALIGN_ATT | GROUNDED | HELD


def build(talk: Talk, recipe: Recipe, *, gated: bool = False, shifts: float = 0.0, **more: Any) -> Session:
    about = {name: more.pop(name) for name in ("sees_cut", "slow_s", "deaf") if name in more}
    oracle = ListeningOracle(talk.words, talk.seed, shifts=shifts, **about)
    return Session(recipe, oracle, make_gate(talk.words) if gated else None, **{"live": True, **more})


@pytest.mark.parametrize("name", slow_but(RECIPES, "simulstreaming", "tide", "npusper", "whisperkit"))
@quick(4)
@given(data=st.data(), gated=st.booleans())
def test_every_word_is_confirmed_once_and_in_order(name: str, gated: bool, data: st.DataObject) -> None:
    check_every_word(build, RECIPES[name], data, gated, slow_s=data.draw(st.sampled_from([0.0, 4.0])))


@pytest.mark.slow
@quick(6)
@given(data=st.data(), deaf=st.sampled_from([0.5, 1.0]), seed=st.integers(0, 10**6))
def test_a_decoder_that_takes_its_text_to_be_over_loses_no_more_than_the_last_words(
    data: st.DataObject, deaf: float, seed: int
) -> None:
    """As checkpoints do that know long windows alone, after the words that are forced on them."""
    talk = Talk(steady(20), 21 * SAMPLE_RATE, seed)
    session = build(talk, TIDE, deaf=deaf)
    play(session, data.draw(st.composite(portions)(talk.duration)))
    spoken = [word for word in said(session.transcript.words) if word.startswith("w")]
    assert spoken == said(talk.words)[: len(spoken)]
    assert all(talk.duration - word.start <= 2 * SAMPLE_RATE for word in talk.words[len(spoken) :])


class DeafInTheEnd(ListeningOracle):
    """Takes the text to be over in the last round alone."""

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        self.deaf = float(plan.is_last)
        return super().run(plan, audio, options, state)


@pytest.mark.parametrize("gated", [False, True])
def test_a_last_round_that_takes_the_text_to_be_over_is_followed_by_another(gated: bool) -> None:
    words = steady(4)[:7]
    oracle = DeafInTheEnd(words, 1)
    session = Session(TIDE.replace(step_s=1.9, reopen_s=1.2), oracle, make_gate(words) if gated else None)
    events = play(session, [SAMPLE_RATE // 10] * (60 if gated else 37))
    assert said(session.transcript.words) == said(words)
    assert [bool(plan.prefix) for plan in oracle.plans if plan.is_last] == [True, False]
    assert sum(isinstance(event, TurnEnd) for event in events) == 1


@dataclass
class Relapsing(ListeningOracle):
    """In a share of the rounds it says the end of its text once more, as decoders do that have lost their place: while
    attending to the very same audio, and with times in what is left of the window.
    """

    relapses: float = 0.6

    def _watched(self, heard: list[TokenWord], plan: RoundPlan, rng: random.Random) -> HeardWords:
        listened = super()._watched([self._attended(word) for word in heard], plan, rng)
        said = (*plan.prefix, *(word.tokens[0] for word in listened.words))
        numbers = [token for token in said if token < MANGLED]
        if rng.random() >= self.relapses or len(numbers) < 2:
            return listened
        again = numbers[-rng.randrange(2, 7) :] * rng.randrange(1, 3)
        copies = [self._copy(number, plan.window.end) for number in again]
        firm = rng.choice([0, len(copies)])
        stop = rng.choice([listened.stop, "guard"])  # the guard against repetition may have noticed
        return replace(listened, words=(*listened.words, *copies), firm=listened.firm + firm, halt=None, stop=stop)

    def _attended(self, word: TokenWord) -> TokenWord:
        return replace(word, attended=(word.start + word.end) // 2)

    def _copy(self, number: int, end: int) -> TokenWord:
        truth = self.words[number]
        attended = (truth.start + truth.end) // 2 + random.Random(number).randrange(-2_000, 2_000)
        return TokenWord(Word(truth.text, end - 1_600, end, 0.9), (number,), attended)


@pytest.mark.slow
@quick(12)
@given(
    data=st.data(),
    name=st.sampled_from(sorted(ALIGN_ATT)),
    gated=st.booleans(),
    rule=st.none() | st.integers(0, 999),
)
def test_what_was_said_once_is_confirmed_once(data: st.DataObject, name: str, gated: bool, rule: int | None) -> None:
    """By any rule, in steps of any length, also where the last round hears its window for a second time."""
    talk, recipe = data.draw(talks()), ALIGN_ATT[name]
    if rule is not None and recipe.has("rule"):
        weights = np.random.default_rng(rule).normal(0, 3, len(FEATURES))
        recipe = recipe.replace(
            rule=Rule(tuple(weights)).text(), max_revision_rate=data.draw(st.sampled_from([0.01, 0.1, 0.5]))
        )
    recipe = recipe.replace(step_s=data.draw(st.sampled_from([0.3, 1.0, 2.0])))
    session = Session(recipe, Relapsing(talk.words, talk.seed), make_gate(talk.words) if gated else None)
    play(session, data.draw(st.composite(portions)(talk.duration)))
    spoken = [word for word in said(session.transcript.words) if word.startswith("w")]
    truth = iter(said(talk.words))
    assert all(word in truth for word in spoken), "expected the words in their order, none more often than said"


@pytest.mark.slow
@quick(6)
@given(data=st.data(), name=st.sampled_from(sorted(GROUNDED)))
def test_decodes_that_end_early_say_nothing_twice(name: str, data: st.DataObject) -> None:
    """At most `carry_most_s` of audio waits for a decode that goes on, so words may be cut; none is heard again."""
    talk = data.draw(talks())
    session = build(talk, GROUNDED[name], gated=True, shifts=0.3)
    play(session, data.draw(st.composite(portions)(talk.duration)))
    spoken = [word for word in said(session.transcript.words) if word.startswith("w")]
    truth = iter(said(talk.words))
    assert all(word in truth for word in spoken), "expected the words in their order"


@pytest.mark.slow
@quick(6)
@given(data=st.data())
def test_the_paper_s_carry_over_loses_nothing_that_is_heard_right(data: st.DataObject) -> None:
    """Way 1: a word that the end of a window cuts is confirmed as it was heard."""
    talk = data.draw(talks())
    session = build(talk, NPUSPER.replace(way=1), gated=True, sees_cut=False)
    play(session, data.draw(st.composite(portions)(talk.duration)))
    assert said(session.transcript.words) == said(talk.words)


@quick(6)
@given(data=st.data(), gated=st.booleans(), name=st.sampled_from(sorted(RECIPES)))
def test_portions_do_not_matter_for_recorded_boundaries(data: st.DataObject, gated: bool, name: str) -> None:
    check_recorded(build, RECIPES[name], data, gated)


@pytest.mark.slow
@quick(6)
@given(data=st.data(), gated=st.booleans(), name=st.sampled_from(sorted(RECIPES)), slow_s=st.sampled_from([0.2, 4.0]))
def test_where_audio_is_not_live_it_does_not_matter_how_long_rounds_take(
    data: st.DataObject, gated: bool, name: str, slow_s: float
) -> None:
    check_not_live(build, RECIPES[name], data, gated, slow_s)


@pytest.mark.slow
@quick(6)
@given(data=st.data(), name=st.sampled_from(sorted(RECIPES)))
def test_a_restored_session_has_the_same_future(data: st.DataObject, name: str) -> None:
    check_restored(build, RECIPES[name], data, gated=True)


@pytest.mark.slow
@quick(6)
@given(data=st.data(), name=st.sampled_from(sorted(RECIPES)))
def test_windows_stay_within_the_cap(data: st.DataObject, name: str) -> None:
    talk = data.draw(talks())
    session = build(talk, RECIPES[name])
    play(session, data.draw(st.composite(portions)(talk.duration)))
    oracle = session.executor
    assert isinstance(oracle, ListeningOracle)
    assert all(len(plan.window) <= RECIPES[name].policy.hard_cap_s * 16_000 for plan in oracle.plans)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["npusper", "tide"])  # one of each kind of policy
def test_an_hour_takes_no_more_memory_and_lags_no_more_than_one_minute(name: str) -> None:
    """An hour of audio: what is kept and what a plan carries stays bounded, words are confirmed as soon after they
    were said as in the beginning, and nothing is lost.
    """
    rng = random.Random(5)
    words: list[Word] = []
    at = 8_000
    while at < 3600 * SAMPLE_RATE:
        length = rng.randrange(3_200, 9_600)
        words.append(Word(f" w{len(words)}", at, at + length))
        at += length + (rng.choice([0, 800, 4_000]) if rng.random() < 0.97 else rng.randrange(48_000))
    talk = Talk(tuple(words), at + 8_000, 5)
    recipe = RECIPES[name].replace(step_s=max(RECIPES[name].schedule.step_s, 1.0))
    session = build(talk, recipe)
    oracle = session.executor
    assert isinstance(oracle, ListeningOracle)
    delays: list[tuple[int, int]] = []  # when a word was confirmed, and how long after its end
    while session.received < talk.duration:
        end = min(session.received + 16_000, talk.duration)
        events = session.push(audio_between(session.received, end))
        delays += [(end, end - words[int(word.text[2:])].end) for word in confirmed(events)]
        assert session.buffered <= (recipe.policy.hard_cap_s + 2) * SAMPLE_RATE
        assert all(len(plan.prefix) < 200 and len(plan.prompt) <= 1200 for plan in oracle.plans)
        if not end // SAMPLE_RATE % 30:  # takes longer than the second itself
            assert len(pickle.dumps(session.snapshot().turns)) < 60_000
        oracle.plans.clear()
    session.finish()
    assert said(session.transcript.words) == said(words)
    hour = 3600 * SAMPLE_RATE
    early = [delay for at, delay in delays if at < hour // 4]
    late = [delay for at, delay in delays if at > 3 * hour // 4]
    assert max(late) <= 2 * SAMPLE_RATE + max(early)
    assert sum(late) / len(late) == pytest.approx(sum(early) / len(early), rel=0.15)


# --- overload ---------------------------------------------------------------------------------------------------------


@dataclass
class Burdened(ListeningOracle):
    """Rounds take so long as the last entry (from which second of audio on, seconds) before their end says."""

    costs: Sequence[tuple[int, float]] = ((0, 0.05),)

    def seconds(self, plan: RoundPlan) -> float:
        return [cost for at, cost in self.costs if at * SAMPLE_RATE <= plan.window.end][-1]


def steady(seconds: int) -> tuple[Word, ...]:
    """Two words a second."""
    return tuple(Word(f" w{i}", 4_000 + i * 8_000, 11_000 + i * 8_000) for i in range(2 * seconds))


def run(session: Session, plan: RoundPlan) -> RoundResult[Any]:
    assert session.executor is not None
    return session.executor.run(plan, session.window(plan), session.options)


def live(session: Session, seconds: int) -> list[Event]:
    """Audio that arrives by the clock, also while a round is computed."""
    oracle, events, now = session.executor, [], 0
    assert isinstance(oracle, Burdened)

    def arrive() -> None:
        session.ingest(audio_between(session.received, min(now, seconds * SAMPLE_RATE)))

    while session.received < seconds * SAMPLE_RATE:
        if plan := session.due():
            now += to_samples(oracle.seconds(plan))
            result = run(session, plan)
            arrive()
            events += session.apply(result)
        else:
            now += SAMPLE_RATE // 10
            arrive()
    return events + session.finish()


def test_overload_lengthens_steps_then_ends_the_guess_then_shortens_windows_and_loses_nothing() -> None:
    phases = {
        "idle": (0, 0.05),
        "longer steps": (30, 0.6),
        "no guess": (60, 1.2),
        "short": (90, 4.0),
        "after": (150, 0.05),
    }
    oracle = Burdened(steady(180), costs=tuple(phases.values()))
    session = Session(TIDE, oracle, live=True)
    events = live(session, 181)
    assert said(session.transcript.words) == said(oracle.words)
    assert confirmed(events) == session.transcript.words

    lags = [event for event in events if isinstance(event, Lag)]
    assert [event.level for event in lags] == [1, 2, 3, 0]
    assert [round(event.behind / SAMPLE_RATE, 1) for event in lags[:3]] == pytest.approx([0.6, 1.2, 4.0], abs=0.2)

    starts = [at for at, _ in phases.values()]
    for (name, (start, _)), end in zip(phases.items(), [*starts[1:], 180], strict=True):
        settled = [p for p in oracle.plans if (start + 10) * SAMPLE_RATE < p.window.end < end * SAMPLE_RATE]
        steps = [(b.window.end - a.window.end) / SAMPLE_RATE for a, b in pairwise(settled)]
        assert np.mean(steps) == pytest.approx(
            {"longer steps": 1.2, "no guess": 2.0, "short": 4.0}.get(name, 0.4), abs=0.1
        )
        hearings = [plan.hearing for plan in settled if isinstance(plan.hearing, SinglePass)]
        guesses = {watch.lookahead_tokens for each in hearings for watch in each.watch if isinstance(watch, Frontier)}
        assert guesses == {0 if name in ("no guess", "short") else 12}
        carried = max(len(plan.prefix) for plan in settled)
        assert carried == 1 if name == "short" else carried >= 2


@pytest.mark.parametrize(("portion_s", "step_s"), [(1.0, 0.3), (2.0, 0.3), (0.1, 2.0)])
def test_large_portions_and_long_steps_are_no_overload(portion_s: float, step_s: float) -> None:
    session = Session(TIDE.replace(step_s=step_s), Burdened(steady(20)), live=True)
    events = play(session, [to_samples(portion_s)] * round(21 / portion_s))
    assert not any(isinstance(event, Lag) for event in events)
    assert any(isinstance(event, Hypothesis) and event.words for event in events)


def test_rounds_that_wait_while_others_are_computed_are_late() -> None:
    """As in a server: audio comes in small portions, and rounds when there is time for them."""
    session, late = Session(TIDE, Burdened(steady(20)), live=True), []
    for _ in range(6):
        for _ in range(25):
            session.ingest(audio_between(session.received, session.received + SAMPLE_RATE // 10))
        plan = session.due()
        assert plan is not None
        late += [event.level for event in session.apply(run(session, plan)) if isinstance(event, Lag)]
    assert late == [2]
    due_after = 0.4  # four portions: `step_s` is there
    assert session.loads == (0, *[round((2.5 - due_after) * SAMPLE_RATE)] * 5)


# --- the properties can fail ------------------------------------------------------------------------------------------


class Careless(Tide):
    """Cuts wherever it likes."""

    def apply(self, state: Any, result: RoundResult[Any]) -> Commit:
        commit = super().apply(state, result)
        if commit.confirmed:
            state.move(result.plan.window.end - 8_000)
        return commit


class Hasty(Tide):
    """Confirms what is after the frontier too."""

    def stands(self, facts: Any, chances: Any) -> int:
        return len(chances)


@pytest.mark.slow
@pytest.mark.parametrize("broken", [Careless, Hasty])
def test_a_broken_policy_is_caught(broken: type[Tide]) -> None:
    right = TIDE.policy
    assert isinstance(right, Tide)
    policy = broken(**{name: getattr(right, name) for name in field_types(Tide)})
    assert not all(survives(build, TIDE.replace(policy=policy), seed) for seed in range(5))
    assert all(survives(build, TIDE, seed) for seed in range(5))
