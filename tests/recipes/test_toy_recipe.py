"""A recipe of somebody else's: a framing that keeps the encoder's state, a policy, and something learned next to the
checkpoint. Each is one line in `CHOICES`, and a session does the rest.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import NANO, nano
from test_session_properties import without_stats
from whispertide.audio.file import load_audio
from whispertide.checkpoint import attachments, load_checkpoint
from whispertide.checkpoint.attachments import Attachment, Kind
from whispertide.decoding.search import Guard
from whispertide.errors import CheckpointNotFoundError, GraphError, OptionError
from whispertide.events import Event, TurnEnd
from whispertide.methods.agreement.whole_window import WholeWindow
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.model.engine import Encoded, EncoderState
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.recipes.assembly import make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import CHOICES, Recipe, parse_overrides
from whispertide.session import Session
from whispertide.streaming.choice import Choice, setting
from whispertide.streaming.framing import Bare
from whispertide.streaming.pipelined import PipelinedExecutor
from whispertide.streaming.policy import Executor
from whispertide.streaming.round import Commit, Opened, RoundPlan, RoundResult
from whispertide.streaming.schedule import Recorded
from whispertide.streaming.searches import Search
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import SAMPLE_RATE, FloatArray, Span, Word, align_down, to_samples

S = SAMPLE_RATE
HALVES = Recorded(tuple(range(S // 2, 2 * S, S // 2)))
LONG = 30.0  # seconds that a test waits for another thread before it fails
TOY = Kind("a toy", "toy-{variant}.npz", "whispertide train toy {model} --size {variant}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyFraming(Bare):
    """Windows as long as they are, louder as was learned; it counts the frames of all rounds."""

    kind: ClassVar[str] = "toy"
    toy_field: int = setting(1, "which toy", least=1, most=9)

    def after(
        self, model: WhisperModel, mel: FloatArray, state: EncoderState | None, *, taps: Sequence[int] = ()
    ) -> Encoded:
        """Encode it, and leave the frames of every round so far."""
        path = attachments.find(model.checkpoint, TOY, str(self.toy_field), instead="framing=bare")
        gain = attachments.load(TOY, path, {"gain": ()}, model.content_hash).arrays["gain"]
        encoded = self(model, mel + np.float32(gain), taps=taps)
        rounds = (*counted(state), encoded.frames)
        return replace(encoded, state=EncoderState({"rounds": rounds}, sum(rounds)))


def counted(state: EncoderState | None) -> tuple[int, ...]:
    """The frames of every round that left the state."""
    return () if state is None else tuple(state.tensors["rounds"])


@dataclass(slots=True)
class ToyState:
    start: int

    def copy(self) -> "ToyState":
        return replace(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyPolicy(Choice):
    """Hears the whole utterance again and again, confirms it at its end, and says how long the encoder's state is."""

    kind: ClassVar[str] = "toy"
    streams: ClassVar[bool] = False
    overlaps: ClassVar[bool] = True
    forces: ClassVar[bool] = False
    searches: ClassVar[tuple[str, ...]] = ("greedy",)
    hard_cap_s: float = setting(20.0, "windows never get longer", least=4, most=30)
    loop_guard: bool = setting(False, "cut down repetition loops")
    drop_below: float = setting(0.0, "unlikely words are not written", least=0, most=1)
    once: bool = setting(False, "one decode for each window")

    @property
    def usual_s(self) -> float:
        return self.hard_cap_s

    def start(self, at: int, after: ToyState | None = None) -> ToyState:
        return ToyState(align_down(at))

    def limit(self, state: ToyState) -> int:
        return state.start + to_samples(self.hard_cap_s)

    def plan(
        self, state: ToyState, frontier: int, *, search: Search, round_id: int, is_last: bool, load: int = 0
    ) -> RoundPlan:
        hearing = SinglePass() if self.once else WholeWindow()
        return RoundPlan(round_id, Span(state.start, frontier), hearing, is_last=is_last)

    def apply(self, state: ToyState, result: RoundResult[Any]) -> Commit:
        heard, end = result.heard, result.plan.window.end
        words: tuple[Word, ...] = ()
        if heard is not None:
            words = tuple(each.word for each in heard.words) if isinstance(heard, HeardWords) else heard.words
        words += (Word(f" [{len(counted(result.state))}]", end, end),)
        return Commit(words, (), end) if result.plan.is_last else Commit((), words, state.start)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHOICES["framing"], "toy", ToyFraming)
    monkeypatch.setitem(CHOICES["policy"], "toy", ToyPolicy)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> WhisperModel:
    """The bundled checkpoint, with toy 2 next to it."""
    folder = tmp_path_factory.mktemp("toy")
    for file in NANO.iterdir():
        (folder / file.name).symlink_to(file)
    checkpoint = load_checkpoint(folder)
    toy = Attachment({"gain": np.array(0.01)}, checkpoint.content_hash)
    attachments.save(attachments.path_beside(checkpoint, TOY, "2"), toy)
    found = WhisperModel(checkpoint, nano().engine)
    found.encode = nano().encode
    return found


@pytest.fixture(scope="module")
def speech() -> FloatArray:
    return load_audio(NANO.parent / "audio" / "demo.flac")[: 2 * S]


def toy(*changes: str) -> Recipe:
    base = ["framing=toy", "policy=toy", "toy_field=2", "search=greedy", "vad=no", "step_s=0.5"]
    return parse_overrides(get_recipe("whisper-streaming"), [*base, *changes])


def play(stream: Session, audio: FloatArray, sizes: Sequence[int] = (S // 2,)) -> list[Event]:
    events, number = [], 0
    while stream.received < len(audio):
        events += stream.push(audio[stream.received :][: sizes[number % len(sizes)]])
        number += 1
    return without_stats([*events, *stream.finish()])


@dataclass
class Watched:
    """The stages of an executor. `before` is told each before it runs, and what the encoder goes on from."""

    stages: SerialExecutor
    before: Callable[[str, RoundPlan, EncoderState | None], None] = lambda stage, plan, state: None
    seen: list[tuple[int, ...]] = field(default_factory=list)

    def run(
        self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: EncoderState | None = None
    ) -> RoundResult[Any]:
        return self.decode(plan, self.encode(plan, audio, state), options)

    def encode(self, plan: RoundPlan, audio: FloatArray, state: EncoderState | None) -> Opened | None:
        self.seen.append(counted(state))
        self.before("encode", plan, state)
        return self.stages.encode(plan, audio, state)

    def decode(
        self, plan: RoundPlan, opened: Opened | None, options: DecodeOptions, guards: Sequence[Guard] = ()
    ) -> RoundResult[Any]:
        self.before("decode", plan, None)
        return self.stages.decode(plan, opened, options, guards)


def stream_of(recipe: Recipe, executor: Executor, **more: Any) -> Session:
    """Nothing is decoded again at higher temperatures: half a second of speech is never likely enough."""
    return Session(recipe, executor, options=DecodeOptions(temperatures=(0.0,)), **more)


def watched(model: WhisperModel, recipe: Recipe) -> Watched:
    executor = make_executor(model, recipe)
    assert isinstance(executor, SerialExecutor)
    return Watched(executor)


def seen_by(stream: Session) -> tuple[int, ...]:
    return counted(stream.encoder)


# --- what is registered is known --------------------------------------------------------------------------------------


def test_a_line_in_the_table_is_enough() -> None:
    recipe = parse_overrides(get_recipe("whisper-streaming"), ["framing=toy", "toy_field=3"])
    assert recipe.framing == ToyFraming(toy_field=3)
    assert recipe.settings()["toy_field"] == 3
    with pytest.raises(OptionError, match="expected toy_field between 1 and 9; got 10"):
        parse_overrides(recipe, ["toy_field=10"])
    with pytest.raises(OptionError, match="'toy_field' belongs to framing=toy"):
        parse_overrides(get_recipe("tide"), ["toy_field=1"])
    with pytest.raises(OptionError, match="expected search=greedy with policy=toy; got search=beam"):
        parse_overrides(get_recipe("whisper-streaming"), ["policy=toy"])
    assert toy("once=yes").policy == ToyPolicy(once=True, hard_cap_s=28.0, loop_guard=True)  # it keeps what both have


def test_without_the_line_nobody_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(CHOICES["framing"], "toy")
    with pytest.raises(OptionError, match=r"expected framing to be one of .*; got 'toy'"):
        toy()


def test_what_was_learned_is_asked_for_by_name(model: WhisperModel, speech: FloatArray) -> None:
    recipe = toy("toy_field=3")
    stream = stream_of(recipe, make_executor(model, recipe))
    with pytest.raises(CheckpointNotFoundError, match=r"expected a toy of .*train toy .* --size 3`, or choose framing"):
        stream.push(speech[:S])
    assert stream.encoder is None


# --- the state of the encoder -----------------------------------------------------------------------------------------


def test_the_state_goes_from_round_to_round(model: WhisperModel, speech: FloatArray) -> None:
    executor = watched(model, toy())
    stream = stream_of(toy(), executor)
    for number in range(1, 4):
        assert executor.seen == [tuple(25 * each for each in range(1, count + 1)) for count in range(number - 1)]
        stream.push(speech[stream.received :][: S // 2])
        assert seen_by(stream) == tuple(25 * each for each in range(1, number + 1))


@pytest.mark.parametrize("end", ["flush", "clear"])
def test_the_state_ends_with_the_utterance(model: WhisperModel, speech: FloatArray, end: str) -> None:
    executor = watched(model, toy())
    stream = stream_of(toy(), executor)
    stream.push(speech[: S // 2])
    stream.push(speech[S // 2 : S])
    assert seen_by(stream) == (25, 50)
    events = getattr(stream, end)()
    assert stream.encoder is None
    assert any(isinstance(event, TurnEnd) for event in events) == (end == "flush")
    stream.push(speech[S : S + S // 2])
    assert (executor.seen[-1], seen_by(stream)) == ((), (25,))


@pytest.mark.slow
def test_the_state_is_in_a_snapshot(model: WhisperModel, speech: FloatArray) -> None:
    stream = stream_of(toy(), make_executor(model, toy()))
    stream.push(speech[: S // 2])
    stream.push(speech[S // 2 : S])
    kept = stream.snapshot()
    future = play(stream, speech)
    another = stream_of(toy(), make_executor(model, toy()))
    for restored in (stream, another):
        restored.restore(kept)
        assert seen_by(restored) == (25, 50)
        assert play(restored, speech) == future


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["encode", "decode"])
@pytest.mark.parametrize("pipelined", [False, True], ids=["serial", "pipelined"])
def test_a_round_that_fails_leaves_the_state(
    model: WhisperModel, speech: FloatArray, stage: str, pipelined: bool
) -> None:
    expected = play(stream_of(toy(), make_executor(model, toy()), schedule=HALVES), speech)
    stages, failures = watched(model, toy()), [GraphError("the graph failed")]

    def fail(now: str, plan: RoundPlan, state: EncoderState | None) -> None:
        if now == stage and plan.id == 1 and failures:
            raise failures.pop()

    stages.before = fail
    stream = stream_of(toy(), PipelinedExecutor(stages) if pipelined else stages, schedule=HALVES)
    events = stream.push(speech[: S // 2])
    if pipelined:  # it raises where the result is taken
        events += stream.push(speech[S // 2 : S])
    with pytest.raises(GraphError, match="the graph failed"):
        stream.push(speech[stream.received :][: S // 2])
    assert failures == []
    assert seen_by(stream) == (25,)
    assert [*without_stats(events), *play(stream, speech)] == expected


def test_a_round_that_is_taken_back_leaves_the_state(model: WhisperModel, speech: FloatArray) -> None:
    executor = watched(model, toy())
    stream = stream_of(toy(), executor)
    stream.push(speech[: S // 2])
    stream.ingest(speech[S // 2 : S])
    plan = stream.due()
    assert plan is not None
    stream.retract(plan)
    assert seen_by(stream) == (25,)
    again = stream.due()
    assert again is not None
    stream.apply(executor.run(again, stream.window(again), stream.options, stream.encoder))
    assert seen_by(stream) == (25, 50)


@pytest.mark.slow
def test_rounds_that_overlap_hand_the_state_on_through_the_first_stage(model: WhisperModel, speech: FloatArray) -> None:
    stages, second, not_landed = watched(model, toy()), threading.Event(), []
    stream = stream_of(toy(), PipelinedExecutor(stages), schedule=HALVES)

    def wait(stage: str, plan: RoundPlan, state: EncoderState | None) -> None:
        if stage == "encode" and plan.id == 1:
            not_landed.append((counted(state), stream.encoder))
            second.set()
        if stage == "decode" and plan.id == 0:
            assert second.wait(LONG), "the next round was not encoded meanwhile"

    stages.before = wait
    events = play(stream, speech)
    assert not_landed == [((25,), None)]
    assert stages.seen == [tuple(25 * each for each in range(1, count + 1)) for count in range(4)]
    assert events == play(stream_of(toy(), make_executor(model, toy()), schedule=HALVES), speech)


@pytest.mark.slow
def test_a_snapshot_of_rounds_under_way_has_the_state_before_them(model: WhisperModel, speech: FloatArray) -> None:
    stream = stream_of(toy(), PipelinedExecutor(watched(model, toy())), schedule=HALVES)
    stream.push(speech[: S // 2])
    stream.push(speech[S // 2 : S])  # takes the result of the first round
    kept = stream.snapshot()
    assert seen_by(stream) == (25,)
    assert kept.turns.in_flight == []
    future = play(stream, speech)
    stream.restore(kept)
    assert seen_by(stream) == (25,)
    assert play(stream, speech) == future


@pytest.mark.slow
def test_an_executor_that_does_not_overlap_hands_the_state_on_too(model: WhisperModel, speech: FloatArray) -> None:
    """Although its results are taken later."""
    stages = watched(model, toy())
    events = play(stream_of(toy(), stages, schedule=HALVES, max_in_flight=2), speech)
    assert stages.seen == [tuple(25 * each for each in range(1, count + 1)) for count in range(4)]
    assert events == play(stream_of(toy(), make_executor(model, toy()), schedule=HALVES), speech)


# --- portions ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("once", ["yes", "no"])
@pytest.mark.parametrize("pipelined", [False, True], ids=["serial", "pipelined"])
@settings(max_examples=2)
@given(sizes=st.lists(st.integers(1_000, 30_000), min_size=1, max_size=5))
def test_portions_do_not_matter(
    model: WhisperModel, speech: FloatArray, once: str, pipelined: bool, sizes: list[int]
) -> None:
    recipe = toy(f"once={once}")

    def build(schedule: Recorded | None = None) -> Session:
        stages = make_executor(model, recipe)
        assert isinstance(stages, SerialExecutor)
        return stream_of(recipe, PipelinedExecutor(stages) if pipelined else stages, schedule=schedule)

    first = build()
    events = play(first, speech, sizes)
    assert len(first.transcript.words) >= 3
    assert first.transcript.words[-1].text == f" [{len(first.boundaries) + 1}]"
    assert play(build(Recorded(first.boundaries)), speech, [len(speech)]) == events
