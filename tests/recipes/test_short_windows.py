"""Which framing a checkpoint gets: by what it says, and by one measurement, which is given here."""

from collections.abc import Callable

import numpy as np
import pytest

from unheard_windows import without_short_windows
from whispertide.api import Transcriber, load
from whispertide.errors import OptionError
from whispertide.methods.attention.steadiness import read_curve
from whispertide.methods.attention.tide import Tide
from whispertide.model.engine import DecodeRequest
from whispertide.model.whisper import WhisperModel
from whispertide.options import EngineOptions
from whispertide.recipes.calibration import Calibration, remember, shipped_for
from whispertide.recipes.catalogue import RECIPES, get_recipe
from whispertide.recipes.recipe import Recipe, parse_overrides
from whispertide.recipes.short_windows import COMFORTABLE, Costs, as_tuned, choose_framing, measure_costs
from whispertide.streaming.framing import BARE, PAD30, Merged, Zeros, get_framing
from whispertide.streaming.stages import SerialExecutor

AS_IT_IS = get_recipe("tide")
TIDE = AS_IT_IS.replace(step_s=0.3)
QUICK_S, SLOW_S = 0.12, 2.0


def machine(encode_s: float, token_s: float = 0.0) -> Callable[[], Costs]:
    """One that takes so long for 30 s, and for a token."""
    return lambda: Costs(encode_s, token_s)


def never() -> Costs:
    raise AssertionError("nothing had to be measured")


class Stopwatch:
    """Says what it is told to, and counts how often it is asked."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0

    def __call__(self, model: WhisperModel) -> Costs:
        self.asked += 1
        return Costs(self.seconds)


# --- the choice -------------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_knows_short_windows_gets_them_unmeasured() -> None:
    framed = choose_framing(TIDE, knows_short=True, costs=never)
    assert framed.recipe == TIDE.replace(framing=BARE, shift_guard=False)
    assert framed.why == "bare windows, because this checkpoint was trained on short windows"
    assert framed.recipe == as_tuned(TIDE)


def test_a_checkpoint_that_was_taught_merged_padding_gets_as_much() -> None:
    framed = choose_framing(TIDE, knows_short=True, costs=never, merged=lambda: 16)
    assert framed.recipe == TIDE.replace(framing="merged", stand_for_all=16, zeros_s=0.2)
    assert framed.why == "merged padding of 16 frames, because this checkpoint was trained on short windows"


def test_an_adapter_is_not_read_where_it_does_not_count() -> None:
    def read() -> int:
        raise AssertionError("nothing had to be read")

    assert choose_framing(TIDE.replace(framing="pad30"), True, never, merged=read).recipe.framing == PAD30
    assert choose_framing(TIDE, True, never, TUNED, merged=read).recipe.framing != BARE
    assert choose_framing(TIDE, False, None, merged=read).recipe.framing == Merged()


WHY = f"{Merged().name} and the backward-shift guard, because this checkpoint was not trained on short windows"


def test_any_other_hears_merged_padding_and_is_guarded() -> None:
    framed = choose_framing(TIDE, knows_short=False, costs=machine(QUICK_S))
    assert framed.recipe == TIDE.replace(framing="merged", shift_guard=True)
    assert framed.why == f"{WHY}; with that a round takes 0.05 s here"


def test_a_machine_that_is_too_slow_for_the_step_gets_a_longer_one() -> None:
    """A usual window of 9.4 s is 12.46 s with its padding."""
    framed = choose_framing(AS_IT_IS, False, machine(1.0))
    assert framed.recipe == AS_IT_IS.replace(framing="merged", shift_guard=True, step_s=0.6)
    assert framed.why == f"{WHY}; with that a round takes 0.42 s here, so the step is 0.6 s in place of 0.4 s"
    slowest = choose_framing(AS_IT_IS, False, machine(12.0)).recipe.settings()
    assert (slowest["step_s"], slowest["longest_step_s"]) == (6.3, 6.3)  # longer than the recipe's longest
    pilot = choose_framing(get_recipe("pilot"), False, machine(99.0)).recipe
    assert pilot.schedule.step_s == 30.0


def test_what_is_decoded_counts_too() -> None:
    """A usual window of 9.3 s has 37 tokens."""
    assert choose_framing(TIDE, False, machine(QUICK_S, 0.005)).recipe.schedule.step_s == 0.3
    assert choose_framing(TIDE, False, machine(QUICK_S, 0.006)).recipe.schedule.step_s == 0.4


def test_doctor_says_that_what_was_chosen_runs_live() -> None:
    """One rule for both: the step is made to fit."""
    for encode_s in np.arange(0.05, 3.0, 0.05):
        costs = Costs(float(encode_s), 0.002)
        recipe = choose_framing(AS_IT_IS, False, lambda costs=costs: costs).recipe  # type: ignore[misc]
        padded_s = recipe.framing.length_s(AS_IT_IS.usual_window_s)
        assert costs.round_s(AS_IT_IS, padded_s) <= COMFORTABLE * recipe.schedule.step_s


TUNED = Calibration({"framing": "zeros", "zeros_s": 1.0, "shift_guard": True}, "it was measured")


@pytest.mark.parametrize("knows_short", [True, False])
def test_what_was_tuned_counts_first(knows_short: bool) -> None:
    framed = choose_framing(TIDE, knows_short, never, TUNED, EngineOptions(threads=2))
    assert framed.recipe == TIDE.replace(framing="zeros", shift_guard=True)
    assert framed.why == (
        "1 s of padding, because it was measured; 2 threads and a step of 0.3 s, not timed here; "
        "words confirmed by the shipped rule"
    )
    assert choose_framing(TIDE, knows_short, None, TUNED).recipe == framed.recipe
    asked = TIDE.replace(framing="bare")
    assert choose_framing(asked, knows_short, never, TUNED).recipe == asked


@pytest.mark.parametrize("changes", [{}, {"framing": "unheard-of"}, {"zeros_s": 1.0}])
def test_without_a_finding_it_is_as_if_nobody_had_tuned(changes: dict[str, object]) -> None:
    found = Calibration(changes, "too little was heard")
    assert choose_framing(TIDE, False, machine(QUICK_S), found).recipe.framing == Merged()
    assert choose_framing(TIDE, True, never, found).recipe.framing == BARE


@pytest.mark.parametrize(("encode_s", "step_s"), [(0.57, 0.3), (0.59, 0.4)])
def test_a_comfortable_share_of_the_step_is_the_bound(encode_s: float, step_s: float) -> None:
    assert choose_framing(TIDE, False, machine(encode_s)).recipe.schedule.step_s == step_s


@pytest.mark.parametrize("framing", ["bare", "pad30", "buckets", "zeros", "merged", "hush"])
def test_a_framing_that_was_asked_for_stays(framing: str) -> None:
    asked = parse_overrides(TIDE, [f"framing={framing}"])
    for knows_short in (True, False):
        framed = choose_framing(asked, knows_short, never)
        assert framed.recipe == asked
        assert framed.why == f"framing={framing}, as the recipe says"


def test_which_recipes_leave_their_framing_open() -> None:
    assert [recipe.name for recipe in RECIPES.values() if recipe.framing.kind == "auto"] == ["pilot", "tide"]
    with pytest.raises(OptionError, match=r"framing to be one of pad30.*got 'auto'"):
        get_framing("auto")  # an executor has to be told


# --- where a recipe meets a model -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def padded_model(tmp_path_factory: pytest.TempPathFactory) -> WhisperModel:
    return load(str(without_short_windows(tmp_path_factory.mktemp("unsaid"))), threads=1).model


def test_a_session_has_what_was_chosen(padded_model: WhisperModel) -> None:
    stopwatch = Stopwatch(SLOW_S)
    transcriber = Transcriber(padded_model, measure=stopwatch)
    for _ in range(2):
        session = transcriber.session("tide", vad=False, live=True)
        assert session.recipe == transcriber.framed(AS_IT_IS).recipe.replace(vad=False)
        assert isinstance(session.executor, SerialExecutor)
        assert session.executor.resources.frame == Merged()
    assert stopwatch.asked == 1
    policy = session.recipe.policy
    assert isinstance(policy, Tide)
    assert policy.shift_guard


def test_where_nobody_waits_the_machine_does_not_count(padded_model: WhisperModel) -> None:
    """What comes of a file is a function of the file."""
    stopwatch = Stopwatch(SLOW_S)
    transcriber = Transcriber(padded_model, measure=stopwatch)
    recipe = transcriber.session("tide", vad=False).recipe
    assert (recipe.framing, recipe.settings()["shift_guard"]) == (Merged(), True)
    assert stopwatch.asked == 0
    why = transcriber.framed(TIDE, live=False).why
    assert why == WHY


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
    assert session.executor.resources.frame == Zeros()


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

    def decoder(self, encoded: None) -> "Machine":
        return self

    def run(self, request: DecodeRequest) -> None:
        assert request.tokens.shape == (1, 1)
        self.now += self.seconds.pop(0)


TOKENS = (0.7, 0.03, 0.01, 0.02)


@pytest.mark.parametrize(("seconds", "found"), [((9.0, 0.1, 0.5, 0.2), 0.2), ((9.0, 5.0), 5.0), ((9.0, 1.0, 7.0), 4.0)])
def test_encoding_and_a_token_are_timed_a_few_times(
    monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...], found: float
) -> None:
    """The first run does not count, and what is slow by far is not repeated."""
    machine = Machine(*seconds, 0.0, *TOKENS)
    monkeypatch.setattr("time.perf_counter", lambda: machine.now)
    costs = measure_costs(machine)  # type: ignore[arg-type]
    assert [costs.encode_s, costs.token_s] == pytest.approx([found, 0.02])
    assert machine.frames == [3000] * len(seconds) + [500]


def test_the_choice_is_in_the_fields_of_the_recipe() -> None:
    """So two sessions that hear differently never look alike."""
    chosen = [choose_framing(TIDE, False, machine(seconds)).recipe for seconds in (QUICK_S, 9.0)]
    assert len({*chosen, as_tuned(TIDE)}) == 3
    assert all(isinstance(recipe, Recipe) and recipe.name == "tide" for recipe in chosen)


# --- what the package knows of a checkpoint ---------------------------------------------------------------------------


def test_what_the_package_knows_of_base_counts() -> None:
    """It makes fewer errors with merged padding than with bare windows, and has a rule and a curve of its own."""
    shipped = shipped_for("base")
    assert shipped is not None
    framed = choose_framing(AS_IT_IS, True, never, shipped)
    assert framed.recipe == AS_IT_IS.replace(**shipped.changes)
    assert framed.recipe.settings()["rule"] == "base"
    assert framed.why.startswith("merged padding of 128 frames, because this checkpoint makes fewer errors with it")
    assert framed.why.endswith("words confirmed by a rule fitted to this checkpoint")
    own = AS_IT_IS.replace(rule="general")
    assert choose_framing(own, True, never, shipped).recipe == own.replace(framing="merged")
    soon = choose_framing(AS_IT_IS.replace(delay_s=0.6), True, never, shipped).recipe
    waits = read_curve("base").patience(0.6)
    assert soon.schedule.step_s == waits.step_s
    assert soon.policy.patience == waits  # type: ignore[attr-defined]
