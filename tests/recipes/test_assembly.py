"""Rounds on the bundled model: times are absolute and inside the window, short windows are no error, costs are told."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import nano, own_nano
from slow_rows import slow_but
from whispertide.audio.file import load_audio
from whispertide.decoding.draft import Align, Reference
from whispertide.decoding.search import NO_STEPS, Steps
from whispertide.errors import CheckpointError, CheckpointNotFoundError, OptionError
from whispertide.methods.agreement.whole_window import WholeWindow
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.methods.attention.truncation import KIND, TruncationDetector
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.recipes.assembly import executor_key, make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.short_windows import as_tuned
from whispertide.streaming.framing import FRAMINGS, PAD30, Buckets, Hush, get_framing
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import SAMPLE_RATE, FloatArray, Span, Word, join_words

CLIP = Path(__file__).parents[1] / "clips" / "quiet.flac"


@cache
def clip() -> FloatArray:
    return load_audio(CLIP)


START = 3200 * 320  # somewhere in the middle of a stream
GREEDY = DecodeOptions(temperatures=(0.0,))


EVERY = [*map(get_framing, FRAMINGS), Buckets(masked=True)]


@pytest.fixture(scope="module", params=slow_but(EVERY, *(each for each in EVERY if each != PAD30)), ids=str)
def executor(request: pytest.FixtureRequest) -> SerialExecutor:
    model = nano()
    return SerialExecutor(RoundResources(model, request.param))


@pytest.fixture(scope="module")
def whole(executor: SerialExecutor) -> Any:
    """The whole clip in this framing."""
    return hear(executor)


def hear(executor: SerialExecutor, count: int | None = None, prompt: str = "") -> Any:
    samples = clip()[:count]
    plan = RoundPlan(7, Span(START, START + len(samples)), WholeWindow(), prompt)
    return executor.run(plan, samples, GREEDY)


def test_words_lie_in_the_window(whole: Any) -> None:
    words = whole.heard.words
    assert len(words) >= 3
    window = whole.plan.window
    assert all(window.start <= word.start <= word.end <= window.end for word in words)
    assert words[-1].start > window.start


def test_the_reference_framing_hears_the_sentence() -> None:
    model = nano()
    words = hear(SerialExecutor(RoundResources(model, get_framing("pad30")))).heard.words
    assert "The best time of" in join_words(words)


def test_costs_name_every_stage(executor: SerialExecutor, whole: Any) -> None:
    assert {cost.stage for cost in whole.costs} == {"encode", "decode", "align"}
    assert whole.stats.encode_s > 0
    assert whole.stats.decoder_runs >= whole.stats.tokens - 5 > 0
    framing, seconds = executor.resources.frame, len(clip()) / SAMPLE_RATE
    expected = 50 * (seconds if isinstance(framing, Hush) else framing.length_s(seconds))  # there is no hush word here
    ((encoded, _),) = whole.costs[0].pieces
    assert abs(encoded - expected) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 159, 160, 4801])
def test_short_windows_are_no_error(executor: SerialExecutor, count: int) -> None:
    result = hear(executor, count)
    assert (result.heard is None) is (count < 160)
    assert all(word.end <= result.plan.window.end for word in (result.heard.words if result.heard else ()))


def test_silence_may_be_heard_but_not_crash(executor: SerialExecutor) -> None:
    plan = RoundPlan(0, Span(0, 16000), WholeWindow())
    assert executor.run(plan, np.zeros(16000, np.float32), GREEDY).plan is plan


@pytest.mark.slow
def test_the_prompt_reaches_the_decoder(executor: SerialExecutor, whole: Any) -> None:
    prompted = hear(executor, prompt="The worst of all the days of the summer is the last.")
    assert whole.heard.segments[0].no_speech_prob != prompted.heard.segments[0].no_speech_prob


def test_executors_are_made_for_the_recipe() -> None:
    model = nano()
    base, simul, tide = (as_tuned(get_recipe(name)) for name in ("whisper-streaming", "simulstreaming", "tide"))
    assert isinstance(make_executor(model, base), SerialExecutor)
    assert isinstance(make_executor(model, tide), SerialExecutor)
    assert executor_key(base) == executor_key(simul) != executor_key(tide)  # how a window is heard is its plan's affair
    assert executor_key(tide) == executor_key(tide.replace(margin_s=0.5, step_s=0.7))


DETECTING = get_recipe("simulstreaming").replace(truncate="detector", framing="bare")


def test_an_executor_with_a_detector_is_for_nobody_without_one() -> None:
    assert executor_key(DETECTING) != executor_key(DETECTING.replace(truncate="none"))


@pytest.fixture
def own_model(tmp_path: Path) -> WhisperModel:
    return load_model(str(own_nano(tmp_path / "mine")), EngineOptions(precision="fp32", threads=1))


def detector_for(model: WhisperModel, content_hash: str = "") -> TruncationDetector:
    weight = np.random.default_rng(1).normal(size=model.dims.n_audio_state).astype(np.float32)
    return TruncationDetector(weight, 0.1, content_hash or model.content_hash)


@pytest.mark.slow
def test_the_detector_next_to_the_checkpoint_is_found(own_model: WhisperModel, tmp_path: Path) -> None:
    detector = detector_for(own_model)
    detector.save(tmp_path / "mine" / KIND.file)
    executor = make_executor(own_model, DETECTING)
    assert isinstance(executor, SerialExecutor)
    assert isinstance(executor.resources.detector, TruncationDetector)
    np.testing.assert_array_equal(executor.resources.detector.weight, detector.weight)
    samples = clip()
    plan = RoundPlan(0, Span(0, len(samples)), hearing=SinglePass(detect_end=True))
    heard = executor.run(plan, samples, GREEDY).heard
    assert heard is not None
    assert heard.word_ended in (True, False)


def test_where_there_is_no_detector_the_error_says_how_to_make_one(own_model: WhisperModel, tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=f"`whispertide train truncation {tmp_path / 'mine'}`"):
        make_executor(own_model, DETECTING)


def test_a_detector_of_another_model_is_refused(own_model: WhisperModel, tmp_path: Path) -> None:
    detector_for(own_model, "0" * 64).save(tmp_path / "mine" / KIND.file)
    with pytest.raises(CheckpointError, match="trained on another checkpoint"):
        make_executor(own_model, DETECTING)


def test_a_model_with_a_name_is_called_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.methods.attention.truncation.KIND", replace(KIND, file="missing.npz"))
    model = nano()
    with pytest.raises(CheckpointNotFoundError, match=r"`whispertide train truncation nano\.en`"):
        make_executor(model, DETECTING)


def test_an_unknown_framing_is_refused() -> None:
    with pytest.raises(OptionError, match="pad30"):
        get_framing("pad60")


# --- following what was heard before ----------------------------------------------------------------------------------


@cache
def bare() -> SerialExecutor:
    return SerialExecutor(RoundResources(nano(), get_framing("bare")))


@cache
def following(words: tuple[Word, ...], beam: int, how: Reference | None, **more: Any) -> Any:
    samples = clip()
    window = Span(START, START + len(samples))
    reference = replace(how, start=START, words=words) if how is not None else None
    return bare().run(
        RoundPlan(7, window, WholeWindow(), reference=reference), samples, replace(GREEDY, beam=beam, **more)
    )


def steps(result: Any) -> Steps:
    return sum((cost.steps for cost in result.costs if cost.stage == "decode"), NO_STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("align", ["bigram", "time", "first"])
def test_a_pruned_round_that_hears_the_same_is_greedy(align: Align) -> None:
    greedy = following((), 1, None)
    again = following(greedy.heard.words, 5, Reference(align=align))
    assert again.heard.words == greedy.heard.words
    assert steps(again) == steps(greedy)
    assert steps(again).rows == steps(again).runs < steps(following((), 5, None)).rows


def test_a_verified_round_that_hears_the_same_is_greedy_in_few_runs() -> None:
    greedy = following((), 1, None)
    for beam in (1, 5):
        again = following(greedy.heard.words, beam, Reference(block=True))
        assert [(word.text, word.start, word.end) for word in again.heard.words] == [
            (word.text, word.start, word.end) for word in greedy.heard.words
        ]
        assert 2 * steps(again).runs < steps(greedy).runs


def test_a_verified_round_begins_as_the_one_before_if_its_window_does() -> None:
    greedy = following((), 1, None)
    samples, window, how = clip(), greedy.plan.window, Reference(block=True)
    runs = []
    for start in (window.start, window.start - 320):
        reference = replace(how, tokens=greedy.heard.tokens, start=start, words=greedy.heard.words)
        again: Any = bare().run(
            RoundPlan(7, window, WholeWindow(), reference=reference), samples, replace(GREEDY, beam=1)
        )
        assert again.heard.tokens == greedy.heard.tokens
        runs.append(steps(again).runs)
    assert runs[0] == runs[1] - 1  # the prompt is no run of its own


def _words(plan: RoundPlan, samples: FloatArray, **options: Any) -> tuple[Word, ...]:
    heard: Any = bare().run(plan, samples, replace(GREEDY, **options)).heard
    words: tuple[Word, ...] = heard.words
    return words


def test_words_have_times_also_where_a_recording_would_not_need_them() -> None:
    """Policies confirm words: without their times nothing would ever be said."""
    samples = clip()
    plan = RoundPlan(7, Span(START, START + len(samples)), WholeWindow())
    with_times, without = (_words(plan, samples, word_timestamps=on) for on in (True, False))
    assert without == with_times != ()


def test_a_text_that_breaks_off_is_left_to_the_next_round_or_not() -> None:
    """2.4 s of the clip end within a word, and their text has no last timestamp."""
    samples = clip()[:38_400]
    rounds: dict[bool, Any] = {
        reread: bare().run(RoundPlan(7, Span(START, START + len(samples)), WholeWindow(reread=reread)), samples, GREEDY)
        for reread in (True, False)
    }
    stages = {reread: [cost.stage for cost in result.costs] for reread, result in rounds.items()}
    assert stages[False] == ["encode", "decode", "align"]
    assert stages[True].count("encode") == 2
    assert rounds[False].heard.words == rounds[True].heard.words[: len(rounds[False].heard.words)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("silence_s", "most", "windows"), [(0, None, 1), (1, None, 2), (0, 3, 4)], ids=["little", "much", "cut short"]
)
def test_only_a_little_is_left_to_the_next_round(silence_s: int, most: int | None, windows: int) -> None:
    """The clip ends with a second and a half without words."""
    samples = np.concatenate([clip(), np.zeros(silence_s * 16_000, np.float32)])
    options = replace(GREEDY, timestamps=False, max_tokens=most)
    result = bare().run(RoundPlan(7, Span(START, START + len(samples)), WholeWindow(reread=False)), samples, options)
    assert [cost.stage for cost in result.costs].count("encode") == windows


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0, 1, 3])
def test_a_verified_round_of_one_beam_is_greedy_whatever_was_heard(keep: int) -> None:
    greedy = following((), 1, None)
    other = Word(" wrong", START + 100, START + 900)
    assert following((*greedy.heard.words[:keep], other), 1, Reference(block=True)).heard.tokens == greedy.heard.tokens
    assert following((other, *greedy.heard.words[keep:]), 1, Reference(block=True)).heard.tokens == greedy.heard.tokens


def test_a_round_that_is_told_nothing_right_is_the_full_beam() -> None:
    other = Word(" Zyx", START + 100, START + 900)
    full, alone = following((), 5, None), following((other,), 5, Reference())
    assert alone.heard.tokens == full.heard.tokens


@pytest.mark.slow
def test_higher_temperatures_start_from_what_was_heard_too() -> None:
    greedy = following((), 1, None)
    hot: dict[str, Any] = {"temperatures": (0.0, 0.01), "logprob_threshold": 0.0, "no_speech_threshold": None}
    plain = following((), 5, None, **hot)
    told = following(greedy.heard.words, 5, Reference(), **hot)
    assert told.heard.words
    assert steps(told).rows < steps(plain).rows
    assert steps(told).rows < 3 * steps(greedy).rows  # at each of the two temperatures nearly all in one row


@pytest.mark.slow
def test_verified_rounds_are_greedy_at_higher_temperatures_too() -> None:
    hot: dict[str, Any] = {"temperatures": (0.0, 0.6), "logprob_threshold": 0.0, "no_speech_threshold": None}
    greedy = following((), 1, None, **hot)
    assert following(greedy.heard.words, 1, Reference(block=True), **hot).heard.tokens == greedy.heard.tokens
