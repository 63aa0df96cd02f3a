"""Which framing a checkpoint gets: by what it says, and by one measurement, which is given here."""

from pathlib import Path

import numpy as np
import pytest

from whispertide.api import Transcriber, load
from whispertide.errors import OptionError
from whispertide.model.whisper import WhisperModel
from whispertide.streaming.align_att import AlignAtt
from whispertide.streaming.calibration import Calibration, remember
from whispertide.streaming.framing import BARE, PAD30, Framing, Zeros, get_framing
from whispertide.streaming.recipe import Recipe, parse_overrides
from whispertide.streaming.recipes import RECIPES, get_recipe
from whispertide.streaming.short_windows import as_tuned, choose_framing, encode_seconds
from whispertide.streaming.stages import SerialExecutor

AS_IT_IS = get_recipe("tide")
TIDE = AS_IT_IS.replace(step_s=0.3)
PADDED = Path(__file__).parents[2] / "models" / "micro-padded.en"
QUICK_S, SLOW_S = 0.12, 0.42


def never() -> float:
    raise AssertionError("nothing had to be measured")


class Stopwatch:
    """Says what it is told to, and counts how often it is asked."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0

    def __call__(self, model: WhisperModel) -> float:
        self.asked += 1
        return self.seconds


# --- the choice -------------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_knows_short_windows_gets_them_unmeasured() -> None:
    framed = choose_framing(TIDE, knows_short=True, encode_s=never)
    assert framed.recipe == TIDE.replace(framing=BARE, shift_guard=False)
    assert framed.why == "bare windows, because this checkpoint has heard short ones"
    assert framed.recipe == as_tuned(TIDE)


def test_any_other_is_padded_where_the_machine_is_quick_enough() -> None:
    framed = choose_framing(TIDE, knows_short=False, encode_s=lambda: QUICK_S)
    assert framed.recipe == TIDE.replace(framing="pad30")
    assert framed.why == (
        "30 s of padding, because this checkpoint has not heard short windows and this machine encodes 30 s in 0.12 s "
        "(within half a step, 0.15 s)"
    )


def test_and_padded_as_far_as_it_can_and_guarded_where_it_is_not() -> None:
    framed = choose_framing(TIDE, knows_short=False, encode_s=lambda: SLOW_S)
    assert framed.recipe == TIDE.replace(framing="zeros", whole_s=10.0, shift_guard=True)
    assert framed.why == (
        "windows padded to 10 s and the backward-shift guard, because this checkpoint has not heard short windows and "
        "this machine encodes 30 s in 0.42 s (more than half a step, 0.15 s)"
    )


@pytest.mark.parametrize(
    ("encode_s", "whole_s"), [(0.225, 20.0), (0.226, 15.0), (0.5625, 8.0), (0.57, 0.0), (9.0, 0.0)]
)
def test_the_longest_that_is_encoded_in_half_a_step(encode_s: float, whole_s: float) -> None:
    """Where nothing is, a second of padding is left."""
    assert choose_framing(TIDE, False, lambda: encode_s).recipe.framing == Zeros(whole_s=whole_s)


TUNED = Calibration({"framing": "zeros", "zeros_s": 1.0, "shift_guard": True}, "it was measured")


@pytest.mark.parametrize("knows_short", [True, False])
def test_what_was_tuned_counts_first(knows_short: bool) -> None:
    framed = choose_framing(TIDE, knows_short, never, TUNED)
    assert framed.recipe == TIDE.replace(framing="zeros", shift_guard=True)
    assert framed.why == "1 s of padding, because it was measured"
    assert choose_framing(TIDE, knows_short, None, TUNED).recipe == framed.recipe
    asked = TIDE.replace(framing="bare")
    assert choose_framing(asked, knows_short, never, TUNED).recipe == asked


@pytest.mark.parametrize("changes", [{}, {"framing": "unheard-of"}, {"zeros_s": 1.0}])
def test_without_a_finding_it_is_as_if_nobody_had_tuned(changes: dict[str, object]) -> None:
    found = Calibration(changes, "too little was heard")
    assert choose_framing(TIDE, False, lambda: QUICK_S, found).recipe.framing == PAD30
    assert choose_framing(TIDE, True, never, found).recipe.framing == BARE


@pytest.mark.parametrize(
    ("step_s", "encode_s", "framing"),
    [(0.3, 0.15, "pad30"), (0.3, 0.151, "zeros"), (1.0, 0.5, "pad30"), (1.0, 0.51, "zeros")],
)
def test_half_a_step_is_the_bound(step_s: float, encode_s: float, framing: str) -> None:
    assert choose_framing(TIDE.replace(step_s=step_s), False, lambda: encode_s).recipe.framing.kind == framing


@pytest.mark.parametrize("framing", ["bare", "pad30", "buckets", "zeros", "hush"])
def test_a_framing_that_was_asked_for_stays(framing: str) -> None:
    asked = parse_overrides(TIDE, [f"framing={framing}"])
    for knows_short in (True, False):
        framed = choose_framing(asked, knows_short, never)
        assert framed.recipe == asked
        assert framed.why == f"framing={framing}, as the recipe says"


def test_which_recipes_leave_their_framing_open() -> None:
    assert [recipe.name for recipe in RECIPES.values() if recipe.framing.kind == "auto"] == ["pilot", "tide"]
    with pytest.raises(OptionError, match=r"framing among pad30.*got 'auto'"):
        get_framing("auto")  # an executor has to be told


# --- where a recipe meets a model -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def padded_model() -> WhisperModel:
    return load(str(PADDED), threads=1).model


@pytest.mark.parametrize(("seconds", "framing"), [(QUICK_S, PAD30), (SLOW_S, Zeros(whole_s=12.0))])
def test_a_session_has_what_was_chosen(padded_model: WhisperModel, seconds: float, framing: Framing) -> None:
    stopwatch = Stopwatch(seconds)
    transcriber = Transcriber(padded_model, measure=stopwatch)
    for _ in range(2):
        session = transcriber.session("tide", vad=False, live=True)
        assert session.recipe == transcriber.framed(AS_IT_IS).recipe.replace(vad=False)
        assert isinstance(session.executor, SerialExecutor)
        assert session.executor.equipment.frame == framing
    assert stopwatch.asked == 1
    policy = session.recipe.policy
    assert isinstance(policy, AlignAtt)
    assert policy.shift_guard is (framing != PAD30)


def test_where_nobody_waits_the_machine_does_not_count(padded_model: WhisperModel) -> None:
    """What comes of a file is a function of the file."""
    stopwatch = Stopwatch(SLOW_S)
    transcriber = Transcriber(padded_model, measure=stopwatch)
    assert transcriber.session("tide", vad=False).recipe.framing == PAD30
    assert stopwatch.asked == 0
    why = transcriber.framed(TIDE, live=False).why
    assert why == "30 s of padding, because this checkpoint has not heard short windows and nobody waits"


def test_the_users_word_counts(padded_model: WhisperModel) -> None:
    stopwatch = Stopwatch(QUICK_S)
    transcriber = Transcriber(padded_model, measure=stopwatch)
    session = transcriber.session(TIDE.replace(framing="bare"), vad=False)
    assert (session.recipe.framing, session.recipe.policy, stopwatch.asked) == (BARE, TIDE.policy, 0)


def test_our_own_checkpoint_is_not_measured() -> None:
    stopwatch = Stopwatch(SLOW_S)
    session = Transcriber(load("nano.en", threads=1).model, measure=stopwatch).session("tide", vad=False)
    assert (session.recipe.framing, session.recipe.policy, stopwatch.asked) == (BARE, TIDE.policy, 0)


def test_a_session_has_what_was_tuned(padded_model: WhisperModel) -> None:
    assert not Transcriber(padded_model).is_known
    remember(padded_model.content_hash, TUNED)
    transcriber = Transcriber(padded_model, measure=lambda model: never())
    assert transcriber.is_known
    session = transcriber.session("tide", vad=False, live=True)
    assert session.recipe == AS_IT_IS.replace(framing="zeros", shift_guard=True, vad=False)
    assert isinstance(session.executor, SerialExecutor)
    assert session.executor.equipment.frame == Zeros()


class Machine:
    """Encodes as slowly as it is told to, by a clock of its own."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = list(seconds)
        self.frames: list[int] = []
        self.now = 0.0

    @property
    def dims(self) -> "Machine":
        return self

    n_mels = 80

    def encode(self, mel: np.ndarray) -> None:
        self.frames.append(mel.shape[1])
        self.now += self.seconds.pop(0)


@pytest.mark.parametrize(
    ("seconds", "found"), [((9.0, 0.1, 0.5, 0.2), 0.2), ((9.0, 5.0, 0.1), 5.0), ((9.0, 1.0, 7.0, 0.1), 4.0)]
)
def test_thirty_seconds_are_encoded_a_few_times(
    monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...], found: float
) -> None:
    """The first run does not count, and what is slow by far is not repeated."""
    machine = Machine(*seconds)
    monkeypatch.setattr("time.perf_counter", lambda: machine.now)
    assert encode_seconds(machine) == pytest.approx(found)  # type: ignore[arg-type]
    assert set(machine.frames) == {3000}


def test_the_choice_is_in_the_fields_of_the_recipe() -> None:
    """So two sessions that hear differently never look alike."""
    chosen = [choose_framing(TIDE, False, lambda: seconds).recipe for seconds in (QUICK_S, SLOW_S)]  # noqa: B023
    assert len({*chosen, as_tuned(TIDE)}) == 3
    assert all(isinstance(recipe, Recipe) and recipe.name == "tide" for recipe in chosen)
