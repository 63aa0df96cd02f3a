"""Rounds on the bundled model: times are absolute and inside the window, short windows are no error, costs are told."""

from pathlib import Path

import numpy as np
import pytest

from whispertide.audio.file import load_audio
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.decoding.truncation import FILE_NAME, TruncationDetector
from whispertide.errors import CheckpointError, CheckpointNotFoundError, OptionError
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.streaming.executor import SerialExecutor, executor_key, make_executor
from whispertide.streaming.framing import BUCKETS, FRAMINGS, get_framing
from whispertide.streaming.recipes import get_recipe
from whispertide.streaming.round import Listening, RoundPlan, RoundResult
from whispertide.streaming.single_pass import SinglePassExecutor
from whispertide.types import Span, join_words

CLIP = Path(__file__).parents[1] / "clips" / "quiet.flac"
START = 3200 * 320  # somewhere in the middle of a stream
GREEDY = DecodeOptions(temperatures=(0.0,))


@pytest.fixture(scope="module", params=list(FRAMINGS))
def executor(request: pytest.FixtureRequest) -> SerialExecutor:
    model = load_model("nano.en", EngineOptions(precision="fp32", threads=1))
    return SerialExecutor(model, get_framing(request.param))


def hear(executor: SerialExecutor, count: int | None = None, prompt: str = "") -> RoundResult:
    samples = load_audio(CLIP)[:count]
    plan = RoundPlan(7, Span(START, START + len(samples)), prompt=prompt)
    return executor.run(plan, samples, GREEDY)


def test_words_lie_in_the_window(executor: SerialExecutor) -> None:
    result = hear(executor)
    words = result.words
    assert len(words) >= 3
    window = result.plan.window
    assert all(window.start <= word.start <= word.end <= window.end for word in words)
    assert words[-1].start > window.start


def test_the_reference_framing_hears_the_sentence() -> None:
    model = load_model("nano.en", EngineOptions(precision="fp32", threads=1))
    words = hear(SerialExecutor(model, get_framing("pad30"))).words
    assert "The best time of" in join_words(words)


def test_costs_name_every_stage(executor: SerialExecutor) -> None:
    result = hear(executor)
    assert {cost.stage for cost in result.costs} == {"encode", "decode", "align"}
    assert result.stats.encode_s > 0
    assert result.stats.decoder_runs >= result.stats.tokens - 5 > 0
    expected = -(-len(load_audio(CLIP)) // 320)
    if executor.frame is FRAMINGS["pad30"]:
        expected = 1500
    elif executor.frame is not FRAMINGS["bare"]:
        expected = next(bucket for bucket in BUCKETS if bucket >= expected)
    assert abs(result.costs[0].frames - expected) <= 1


@pytest.mark.parametrize("count", [1, 159, 160, 320, 1000, 4801])
def test_short_windows_are_no_error(executor: SerialExecutor, count: int) -> None:
    result = hear(executor, count)
    assert all(word.end <= result.plan.window.end for word in result.words)


def test_silence_may_be_heard_but_not_crash(executor: SerialExecutor) -> None:
    plan = RoundPlan(0, Span(0, 16000))
    assert executor.run(plan, np.zeros(16000, np.float32), GREEDY).plan is plan


def test_the_prompt_reaches_the_decoder(executor: SerialExecutor) -> None:
    plain, prompted = hear(executor), hear(executor, prompt="The worst of all the days of the summer is the last.")
    assert plain.segments[0].avg_logprob != prompted.segments[0].avg_logprob


def test_executors_are_made_for_the_recipe() -> None:
    model = load_model("nano.en", EngineOptions(precision="fp32", threads=1))
    base, simul, tide = (get_recipe(name) for name in ("whisper-streaming", "simulstreaming", "tide"))
    assert isinstance(make_executor(model, base), SerialExecutor)
    assert isinstance(make_executor(model, tide), SinglePassExecutor)
    assert len({executor_key(recipe) for recipe in (base, simul, tide)}) == 3
    assert executor_key(tide) == executor_key(tide.replace(margin_s=0.5, step_s=0.7))


DETECTING = get_recipe("simulstreaming").replace(truncate="detector", framing="bare")


def test_a_detector_may_be_given() -> None:
    class Given:
        def fires(self, hidden: object) -> bool:
            return True

    given = Given()
    model = load_model("nano.en", EngineOptions(precision="fp32", threads=1))
    executor = make_executor(model, DETECTING, given)
    assert isinstance(executor, SinglePassExecutor)
    assert executor.detector is given
    assert executor_key(DETECTING) != executor_key(DETECTING.replace(truncate="none"))


@pytest.fixture
def own_model(tmp_path: Path) -> WhisperModel:
    """The bundled model in a folder of the user's own."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for file in (BUNDLED_DIR / "nano.en").iterdir():
        if file.suffix != ".npz":
            (folder / file.name).symlink_to(file)
    return load_model(str(folder), EngineOptions(precision="fp32", threads=1))


def detector_for(model: WhisperModel, content_hash: str = "") -> TruncationDetector:
    weight = np.random.default_rng(1).normal(size=model.dims.n_audio_state).astype(np.float32)
    return TruncationDetector(weight, 0.1, content_hash or model.content_hash)


def test_the_detector_beside_the_checkpoint_is_found(own_model: WhisperModel, tmp_path: Path) -> None:
    detector = detector_for(own_model)
    detector.save(tmp_path / "mine" / FILE_NAME)
    executor = make_executor(own_model, DETECTING)
    assert isinstance(executor, SinglePassExecutor)
    assert isinstance(executor.detector, TruncationDetector)
    np.testing.assert_array_equal(executor.detector.weight, detector.weight)
    samples = load_audio(CLIP)
    plan = RoundPlan(0, Span(0, len(samples)), listen=Listening(detect_end=True))
    heard = executor.run(plan, samples, GREEDY).listened
    assert heard is not None
    assert heard.word_ended in (True, False)


def test_where_there_is_no_detector_the_error_says_how_to_make_one(own_model: WhisperModel, tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=f"`whispertide train truncation {tmp_path / 'mine'}`"):
        make_executor(own_model, DETECTING)


def test_a_detector_of_another_model_is_refused(own_model: WhisperModel, tmp_path: Path) -> None:
    detector_for(own_model, "0" * 64).save(tmp_path / "mine" / FILE_NAME)
    with pytest.raises(CheckpointError, match="trained on another checkpoint"):
        make_executor(own_model, DETECTING)


def test_a_model_with_a_name_is_called_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.streaming.executor.FILE_NAME", "missing.npz")
    model = load_model("nano.en", EngineOptions(precision="fp32", threads=1))
    with pytest.raises(CheckpointNotFoundError, match=r"`whispertide train truncation nano\.en`"):
        make_executor(model, DETECTING)


def test_an_unknown_framing_is_refused() -> None:
    with pytest.raises(OptionError, match="pad30"):
        get_framing("pad60")
