"""Two stages on two workers: the same results as one after the other, in order, overlapping, and nothing left over.

Overlap is shown by stages that wait for each other, not by clocks.
"""

import gc
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from oracle import Oracle, audio_between, make_gate, plain, speech
from round_workers import LONG, no_workers_are_left
from slow_rows import slow_but
from test_session_properties import without_stats
from whispertide.decoding.search import Guard
from whispertide.errors import GraphError, OptionError, SessionError
from whispertide.events import Confirmed, End, Event, Hypothesis
from whispertide.methods.agreement.whole_window import WholeWindow
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.session import Session
from whispertide.streaming.pipelined import PipelinedExecutor
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.schedule import Recorded
from whispertide.types import SAMPLE_RATE, FloatArray, Span, Word

S = SAMPLE_RATE
RECIPE = get_recipe("whisper-streaming").replace(vad=False, trim_s=5, hard_cap_s=10, beam=2)
WORDS = speech(*((f"w{i}", i / 2, i / 2 + 0.4) for i in range(24)))
PAUSED = speech(("one", 0.5, 0.9), ("two", 1.0, 1.4), ("three", 5.0, 5.4), ("four", 5.5, 5.9))


def opened(audio: FloatArray) -> Any:
    """What a first stage without a model leaves."""
    return SimpleNamespace(audio=audio, encoded=SimpleNamespace(state=None))


@dataclass
class Scripted:
    """Stages without a model. `before` is told each stage before it runs; it may wait or raise."""

    oracle: Oracle
    before: Callable[[str, RoundPlan], None] = lambda stage, plan: None
    log: list[tuple[str, int]] = field(default_factory=list)
    busy: dict[str, threading.Lock] = field(default_factory=lambda: {s: threading.Lock() for s in ("encode", "decode")})
    watched: Callable[[Sequence[Guard]], None] = lambda guards: None

    def encode(self, plan: RoundPlan, audio: FloatArray, state: Any) -> Any:
        assert self.busy["encode"].acquire(blocking=False), "two rounds were encoded at once"
        try:
            self.before("encode", plan)
            self.log.append(("encode", plan.id))
            return opened(audio)
        finally:
            self.busy["encode"].release()

    def decode(
        self, plan: RoundPlan, opening: Any, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult[Any]:
        assert self.busy["decode"].acquire(blocking=False), "two rounds were decoded at once"
        try:
            self.before("decode", plan)
            self.watched(guards)
            self.log.append(("decode", plan.id))
            return self.oracle.run(plan, opening.audio, options)
        finally:
            self.busy["decode"].release()


def said(words: Sequence[Word]) -> list[str]:
    return [plain(word.text) for word in words]


def push(session: Session, until: float, step: float = 0.5) -> list[Event]:
    events: list[Event] = []
    while session.received < until * S:
        end = min(session.received + round(step * S), round(until * S))
        events += session.push(audio_between(session.received, end))
    return events


# --- rounds -----------------------------------------------------------------------------------------------------------


def bare_round(number: int) -> tuple[RoundPlan, FloatArray, DecodeOptions]:
    return (
        RoundPlan(number, Span(0, 8000 + number * 320), WholeWindow()),
        audio_between(0, 8000 + number * 320),
        DecodeOptions(),
    )


def test_a_round_is_encoded_while_the_one_before_it_is_decoded() -> None:
    meeting = threading.Barrier(2, timeout=LONG)  # breaks, and fails the rounds, unless both stages are in it at once

    def meet(stage: str, plan: RoundPlan) -> None:
        if (stage, plan.id) in (("decode", 0), ("encode", 1)):
            meeting.wait()

    executor = PipelinedExecutor(Scripted(Oracle(()), meet))
    rounds = [executor.begin(*bare_round(number)) for number in range(2)]
    assert [item.result().plan.id for item in rounds] == [0, 1]
    assert no_workers_are_left()


def test_where_no_thread_can_be_had_the_other_rounds_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    executor, start = PipelinedExecutor(Scripted(Oracle(()))), threading.Thread.start
    first = executor.begin(*bare_round(0))

    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(RuntimeError, match="new thread"):
        executor.begin(*bare_round(1))
    monkeypatch.setattr(threading.Thread, "start", start)
    later = executor.begin(*bare_round(2))
    assert [item._outcome.result(timeout=LONG).plan.id for item in (first, later)] == [0, 2]
    assert no_workers_are_left()


def test_nothing_is_kept_of_a_round_that_nobody_holds_any_more() -> None:
    """Its audio and what the encoder left are megabytes, and sessions come and go."""
    executor = PipelinedExecutor(Scripted(Oracle(())))
    begun = [executor.begin(*bare_round(number)) for number in range(2)]
    assert [item.result().plan.id for item in begun] == [0, 1]
    assert no_workers_are_left()
    kept = [ref(item) for item in begun]
    begun.clear()
    gc.collect()
    assert [item() for item in kept] == [None, None]
    assert executor.run(*bare_round(2)).plan.id == 2


def test_rounds_keep_their_order_in_both_stages() -> None:
    chance = random.Random(0)
    stages = Scripted(Oracle(()), lambda stage, plan: time.sleep(chance.random() / 500))
    executor = PipelinedExecutor(stages)
    rounds = [executor.begin(*bare_round(number)) for number in range(20)]
    assert [item.result().plan.id for item in rounds] == list(range(20))
    for stage in ("encode", "decode"):
        assert [number for name, number in stages.log if name == stage] == list(range(20))


@pytest.mark.parametrize("stage", ["encode", "decode"])
def test_what_a_stage_raises_reaches_whoever_waits_and_nobody_else(stage: str) -> None:
    def fail(name: str, plan: RoundPlan) -> None:
        if (name, plan.id) == (stage, 1):
            raise GraphError(f"the graph of {name} failed")

    executor = PipelinedExecutor(Scripted(Oracle(()), fail))
    rounds = [executor.begin(*bare_round(number)) for number in range(3)]
    assert rounds[0].result().plan.id == 0
    with pytest.raises(GraphError, match=f"the graph of {stage} failed"):
        rounds[1].result()
    assert rounds[2].result().plan.id == 2
    assert no_workers_are_left()


def test_a_round_that_fails_early_does_not_let_the_next_one_overtake() -> None:
    decoding, release = threading.Event(), threading.Event()

    def script(name: str, plan: RoundPlan) -> None:
        if (name, plan.id) == ("decode", 0):
            decoding.set()
            assert release.wait(LONG)
        if (name, plan.id) == ("encode", 1):
            raise GraphError("no")

    executor = PipelinedExecutor(Scripted(Oracle(()), script))  # which asserts that one round is decoded at a time
    rounds = [executor.begin(*bare_round(number)) for number in range(3)]
    assert decoding.wait(LONG)
    with pytest.raises(GraphError):
        rounds[1].result()
    assert not rounds[2].done
    release.set()
    assert [rounds[number].result().plan.id for number in (0, 2)] == [0, 2]
    assert no_workers_are_left()


def test_a_cancelled_round_stops_at_its_next_token_and_the_others_do_not_begin() -> None:
    decoding = threading.Event()

    def without_end(guards: Sequence[Guard]) -> None:
        decoding.set()
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline:
            for guard in guards:
                guard.check((), None, 0.0)

    stages = Scripted(Oracle(()), watched=without_end)
    executor = PipelinedExecutor(stages)
    rounds = [executor.begin(*bare_round(number)) for number in range(3)]
    assert decoding.wait(LONG)
    for item in rounds:
        item.cancel()
    for item in rounds:
        with pytest.raises(CancelledError):
            item.result()
    assert ("decode", 0) not in stages.log
    assert no_workers_are_left()


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_says_the_same_as_with_serial_rounds_planned_as_early() -> None:
    pipelined = Session(RECIPE, PipelinedExecutor(Scripted(Oracle(WORDS))))
    serial = Session(RECIPE, Oracle(WORDS), max_in_flight=2)
    assert without_stats(push(pipelined, 13) + pipelined.finish()) == without_stats(push(serial, 13) + serial.finish())
    assert pipelined.boundaries == serial.boundaries
    assert said(pipelined.transcript.words) == said(WORDS)


def test_collect_takes_what_is_done_and_waits_for_nothing() -> None:
    held = threading.Event()
    stages = Scripted(Oracle(WORDS), lambda stage, plan: None if held.wait(LONG) else pytest.fail("never let go"))
    session = Session(RECIPE, PipelinedExecutor(stages))
    push(session, 1.5)
    assert session.collect() == []
    held.set()
    events: list[Event] = []
    while not events:
        events = session.collect()
    assert isinstance(events[0], Hypothesis)
    session.finish()


def test_the_end_of_an_utterance_is_not_left_waiting() -> None:
    gate = make_gate(PAUSED)
    session = Session(RECIPE, PipelinedExecutor(Scripted(Oracle(PAUSED))), gate)
    events = push(session, 4.0)
    assert said([word for event in events if isinstance(event, Confirmed) for word in event.words]) == ["one", "two"]
    session.finish()


def test_a_full_window_is_not_left_waiting() -> None:
    words = speech(*((f"w{i}", i / 2, i / 2 + 0.4) for i in range(60)))
    session = Session(RECIPE, PipelinedExecutor(Scripted(Oracle(words, agreeable=False))))
    push(session, 29)
    assert len(session.transcript.words) > 30  # nothing was agreed on: windows were full, and room was made
    assert session.buffered < 20 * S
    session.finish()
    assert said(session.transcript.words) == said(words)[: len(session.transcript.words)]


@each_row("stage", ["encode", "decode"])
@each_row("failing", [0, 3, 7])
def test_a_stage_that_raises_tears_nothing(stage: str, failing: int) -> None:
    def fail(name: str, plan: RoundPlan) -> None:
        if (name, plan.id) == (stage, failing):
            raise GraphError(f"the graph {name}r.onnx failed")

    session = Session(RECIPE, PipelinedExecutor(Scripted(Oracle(WORDS), fail)))
    events: list[Event] = []
    failures: list[str] = []
    while session.received < 13 * S:
        try:
            events += session.push(audio_between(session.received, session.received + S // 2))
        except GraphError as error:
            failures.append(str(error))
            kept = said(session.transcript.words)
            assert kept == said(WORDS)[: len(kept)]
    events += session.finish()
    assert failures == [f"the graph {stage}r.onnx failed"]
    assert said(session.transcript.words) == said(WORDS)
    assert [event.seq for event in events] == list(range(len(events)))
    assert no_workers_are_left()


def test_closing_gives_rounds_up_and_the_session_could_go_on() -> None:
    stuck, release = threading.Event(), threading.Event()

    def hold(stage: str, plan: RoundPlan) -> None:
        if (stage, plan.id) == ("decode", 4):
            stuck.set()
            assert release.wait(LONG)

    session = Session(RECIPE, PipelinedExecutor(Scripted(Oracle(WORDS), hold)))
    push(session, 5)
    assert stuck.wait(LONG)
    before = said(session.transcript.words)
    session.close()
    session.close()
    release.set()
    assert no_workers_are_left()
    assert session.collect() == []
    assert said(session.transcript.words) == before
    push(session, 13)
    session.finish()
    assert said(session.transcript.words) == said(WORDS)


@pytest.mark.parametrize("leave", ["fail", "clear"])
def test_failing_and_clearing_give_rounds_up_too(leave: str) -> None:
    session = Session(RECIPE, PipelinedExecutor(Scripted(Oracle(WORDS))))
    push(session, 5)
    known = said(session.transcript.words)
    session.fail("out of memory") if leave == "fail" else session.clear()
    assert no_workers_are_left()
    assert said(session.transcript.words) == known
    if leave == "clear":
        push(session, 13)
        session.finish()
        assert said(session.transcript.words)[-4:] == said(WORDS)[-4:]
        with pytest.raises(SessionError):
            session.push(np.zeros(1, np.float32))


def test_a_snapshot_leaves_out_what_is_under_way() -> None:
    session = Session(RECIPE, PipelinedExecutor(Scripted(Oracle(WORDS))))
    push(session, 5)
    state = session.snapshot()
    rest = push(session, 13) + session.finish()
    other = Session(RECIPE, PipelinedExecutor(Scripted(Oracle(WORDS))))
    other.restore(state)
    push(other, 13)
    other.finish()
    assert rest
    assert said(other.transcript.words) == said(session.transcript.words) == said(WORDS)


@st.composite
def talks(draw: st.DrawFn) -> tuple[tuple[Word, ...], int]:
    words: list[Word] = []
    at = draw(st.integers(0, 20_000))
    for number in range(draw(st.integers(0, 24))):
        at += draw(st.sampled_from([0, 0, 2_000, 4_000, 40_000]))
        words.append(Word(f" w{number}", at, at + draw(st.integers(3_200, 9_600))))
        at = words[-1].end
    return tuple(words), at + draw(st.integers(800, 20_000))


@pytest.mark.parametrize(
    "changes", slow_but([{}, {"prompt_chars": 0, "agreement": 3}, {"step_s": 0.3, "schedule": "best-effort"}], {})
)
@quick(6)
@given(
    talk=talks(),
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(2_000, 60_000), min_size=1, max_size=6),
    gated=st.booleans(),
    live=st.booleans(),
)
def test_no_word_is_lost_or_said_twice_however_rounds_overlap(
    changes: dict[str, Any], talk: tuple[tuple[Word, ...], int], seed: int, sizes: list[int], gated: bool, live: bool
) -> None:
    words, duration = talk
    recipe = RECIPE.replace(**changes)
    session = Session(recipe, PipelinedExecutor(Scripted(Oracle(words, seed))), make_gate(words) if gated else None)
    events: list[Event] = []
    number = 0
    while session.received < duration:
        end = min(session.received + sizes[number % len(sizes)], duration)
        events += session.push(audio_between(session.received, end))
        number += 1
        if live:
            events += session.collect()
    events += session.finish()
    assert said([word for event in events if isinstance(event, Confirmed) for word in event.words]) == said(words)
    assert [event.seq for event in events] == list(range(len(events)))
    assert isinstance(events[-1], End)
    again = Session(
        recipe,
        PipelinedExecutor(Scripted(Oracle(words, seed))),
        make_gate(words) if gated else None,
        schedule=Recorded(session.boundaries),
    )
    whole = again.push(audio_between(0, duration)) if duration else []
    whole += again.finish()
    if not live:  # the same rounds, planned at the same point, from one portion
        assert [(e.at, said(e.words)) for e in whole if isinstance(e, Confirmed)] == [
            (e.at, said(e.words)) for e in events if isinstance(e, Confirmed)
        ]


def test_attention_recipes_cannot_overlap() -> None:
    with pytest.raises(OptionError, match="policy=local-agreement with executor=pipelined"):
        get_recipe("tide").replace(executor="pipelined")
