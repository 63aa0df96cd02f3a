"""Sessions that share graph runs say what they would say alone."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from whispertide import api
from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.errors import GraphError
from whispertide.events import Confirmed, Event, Hypothesis
from whispertide.model.batched import BatchedEngine, Batcher
from whispertide.model.cohort import Cohort, Member
from whispertide.model.engine import DecodeOutput, DecodeRequest, DecoderRun, Encoded
from whispertide.model.onnx_engine import of_onnx_runtime
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.server.serving import batch_sessions
from whispertide.types import FloatArray

CLIPS = Path(__file__).parents[1] / "clips"
BARE = get_recipe("whisper-streaming").replace(framing="bare", vad=False)
QUICK = DecodeOptions(temperatures=(0.0,), max_tokens=16)
CUTS = (0, 7_000)  # so that no two sessions hear the same


@pytest.fixture(scope="module")
def model() -> Transcriber:
    model = api.load("nano.en", precision="fp32", threads=1)
    model.warm_up()
    return model


@pytest.fixture(scope="module")
def clips() -> list[FloatArray]:
    river = load_audio(CLIPS / "river.flac")
    return [river[cut : cut + 40_000] for cut in CUTS]


def spoken(model: Transcriber, audio: FloatArray, recipe: Recipe) -> list[Event]:
    """The rounds are the same every time: a second of audio each."""
    session = model.session(recipe, options=QUICK)
    events: list[Event] = []
    for start in range(0, len(audio), 16_000):
        events += session.push(audio[start : start + 16_000])
    return events + session.finish()


def words(events: Sequence[Event]) -> list[object]:
    return [
        (type(event).__name__, [(word.text, word.start, word.end) for word in event.words])
        for event in events
        if isinstance(event, Confirmed | Hypothesis)
    ]


def probabilities(events: Sequence[Event]) -> list[float]:
    return [word.probability for event in events if isinstance(event, Confirmed) for word in event.words]


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and patience last so long that searches meet, however the machine divides its time."""
    monkeypatch.setattr("whispertide.model.batched._PATIENCE_S", 0.25)
    run = Cohort.run

    def slowly(cohort: Cohort, steps: Mapping[Member, DecodeRequest]) -> dict[Member, DecodeOutput]:
        time.sleep(0.02)
        return run(cohort, steps)

    monkeypatch.setattr(Cohort, "run", slowly)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("recipe", [BARE.replace(beam=1), pytest.param(BARE.replace(beam=3), marks=pytest.mark.slow)])
@pytest.mark.slow
def test_the_text_is_the_same_alone_and_among_others(
    model: Transcriber, clips: list[FloatArray], recipe: Recipe
) -> None:
    alone = [spoken(model, clip, recipe) for clip in clips]
    shared = batch_sessions(model, most=4, lanes=2)
    with ThreadPoolExecutor(len(clips)) as pool:
        together = list(pool.map(lambda clip: spoken(shared, clip, recipe), clips))
    assert isinstance(shared.model.engine, BatchedEngine)
    assert shared.model.engine.batcher.steps > shared.model.engine.batcher.runs, "no two sessions ever shared a run"
    for one, among in zip(alone, together, strict=True):
        assert words(one)
        assert words(among) == words(one)
        np.testing.assert_allclose(probabilities(among), probabilities(one), atol=1e-4)


def request(*tokens: int, parents: tuple[int, ...] | None = None) -> DecodeRequest:
    return DecodeRequest(np.array(tokens, np.int64)[:, None], (0,), parents)


def in_twos(model: Transcriber, *, lanes: int = 1) -> tuple[BatchedEngine, Encoded]:
    """An engine whose runs take two, and a window of a second of nothing."""
    base = model.model
    window = base.encode(np.zeros((base.dims.n_mels, 100), np.float32))
    return BatchedEngine(base.engine, most=2, lanes=lanes), window


@pytest.mark.usefixtures("unhurried")
def test_steps_of_different_lengths_share_runs_and_part_again(model: Transcriber, clips: list[FloatArray]) -> None:
    """Prompts of different lengths, a rewind, other audio, a step alone in between: the same candidates throughout."""
    base = model.model
    mel = np.random.default_rng(0).normal(size=(3, base.dims.n_mels, 100)).astype(np.float32)
    windows = [base.encode(one) for one in mel]
    shared = BatchedEngine(base.engine, most=3, lanes=1)
    prompts = [np.arange(100, 100 + 3 * n)[None] for n in (1, 4, 2)]

    def script(decoder: object, number: int, barrier: threading.Barrier | None) -> list[FloatArray]:
        found: list[FloatArray] = []

        def run(one: DecodeRequest) -> None:
            if barrier is not None:
                barrier.wait()
            output = decoder.run(one)  # type: ignore[attr-defined]
            assert output.top_logprobs is not None
            found.append(output.top_logprobs)

        run(DecodeRequest(prompts[number], (prompts[number].shape[1] - 1,)))
        run(request(7, 8 + number, parents=(0, 0)))
        run(request(9, 10, parents=(1, 0)))
        if number == 1:
            decoder.rewind(2)  # type: ignore[attr-defined]
        if number == 0:
            decoder.hear(windows[1])  # type: ignore[attr-defined]
        run(request(11, 12))
        if number == 2:
            run(DecodeRequest(np.array([[3, 4, 5], [6, 7, 8]]), (2,)))
        else:
            run(request(13, 14))
        run(request(15, 16))
        return found

    expected = [script(base.decoder(window), n, None) for n, window in enumerate(windows)]
    barrier = threading.Barrier(3)
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(script, shared.start(window), n, barrier) for n, window in enumerate(windows)]
        got = [run.result(timeout=120) for run in runs]
    for one, other in zip(expected, got, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(b, a, atol=2e-3)
    assert shared.batcher.steps > shared.batcher.runs


def test_a_step_that_came_during_a_run_waits_for_those_in_it(
    model: Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two searches that began at different times would otherwise take turns, each run with one row."""
    shared, window = in_twos(model)
    decoders = [shared.start(window) for _ in range(2)]
    for decoder in decoders:
        decoder.run(request(50257))
    run, sizes, first_runs, now = Cohort.run, list[int](), threading.Event(), 0.0

    def clock() -> float:
        """It stands still, so that patience lasts as long as the machine takes, and goes on after the second run."""
        nonlocal now
        now += len(sizes) > 1
        return now

    def until_another_waits(cohort: Cohort, steps: Mapping[Member, DecodeRequest]) -> dict[Member, DecodeOutput]:
        nonlocal now
        sizes.append(len(steps))
        if len(sizes) == 1:
            first_runs.set()
            (queue,) = shared.batcher._queues.values()
            deadline = time.monotonic() + 60
            while not queue.waiting and time.monotonic() < deadline:
                time.sleep(0.001)
            now += 1  # longer than anybody's patience
        return run(cohort, steps)

    monkeypatch.setattr("whispertide.model.batched.time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(Cohort, "run", until_another_waits)

    def two_steps(decoder: DecoderRun, *, late: bool) -> None:
        if late:
            assert first_runs.wait(60)
        for token in (1, 2):
            decoder.run(request(token))
            time.sleep(0.05)  # as a search takes to choose

    with ThreadPoolExecutor(2) as pool:
        for done in [
            pool.submit(two_steps, decoder, late=late) for decoder, late in zip(decoders, (False, True), strict=True)
        ]:
            done.result(timeout=120)
    assert sizes == [1, 2, 1]


def test_more_sessions_than_fit_into_one_run(model: Transcriber) -> None:
    shared, window = in_twos(model, lanes=2)

    def steps(_: int) -> int:
        decoder = shared.start(window)
        decoder.run(request(50257))
        for token in range(10):
            decoder.run(request(token))
        return decoder.length

    with ThreadPoolExecutor(5) as pool:
        assert list(pool.map(steps, range(5))) == [11] * 5


def test_a_run_that_fails_is_an_error_for_those_in_it_and_for_nobody_later(
    model: Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, window = in_twos(model)
    decoder = shared.start(window)
    decoder.run(request(50257))

    def fail(self: object, jobs: object) -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Cohort, "run", fail)
        with pytest.raises(GraphError, match="no room"):
            decoder.run(request(1))
    assert decoder.run(request(1)).top_ids is not None


def test_the_text_context_is_not_exceeded(model: Transcriber) -> None:
    base = model.model
    batcher = Batcher(of_onnx_runtime(base.engine).decoder, most=2, lanes=1)
    assert batcher.runs == 0
    shared = BatchedEngine(base.engine, most=2, lanes=1)
    decoder = shared.start(base.encode(np.zeros((base.dims.n_mels, 4), np.float32)))
    decoder.run(DecodeRequest(np.full((1, base.dims.n_text_ctx), 5), (0,)))
    with pytest.raises(GraphError, match="text context"):
        decoder.run(request(1))


def test_windows_of_lengths_that_nobody_has_any_more_are_let_go_of(model: Transcriber) -> None:
    base = model.model
    shared = BatchedEngine(base.engine, most=4, lanes=1)

    def steps(window: Encoded) -> None:
        decoder = shared.start(window)
        for token in (50257, 1, 2):
            decoder.run(request(token))

    for columns in range(100, 200, 20):
        steps(base.encode(np.zeros((base.dims.n_mels, columns), np.float32)))
    assert len(shared.batcher._queues) == 1
