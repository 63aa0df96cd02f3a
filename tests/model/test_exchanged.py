"""A decode that changes workers in the middle is the same decode."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from reference import nano
from whispertide.audio.file import load_audio
from whispertide.features import log_mel
from whispertide.model.engine import DecodeOutput, DecodeRequest
from whispertide.model.exchanged import ExchangedEngine
from whispertide.model.whisper import WhisperModel

CLIP = Path(__file__).parents[1] / "clips" / "quiet.flac"


@pytest.fixture(scope="module")
def model() -> WhisperModel:
    return nano()


def exchanged(model: WhisperModel, tokens: int, hand_over: Callable[[], None]) -> WhisperModel:
    first, second = (model.view(model.options).engine for _ in range(2))
    return WhisperModel(model.checkpoint, ExchangedEngine(first, second, tokens, hand_over))


def talk(model: WhisperModel) -> list[DecodeOutput]:
    """A prompt, two beams, a rewind and a last step: four positions after the prompt, then the last one."""
    state = model.decoder(model.encode(log_mel(load_audio(CLIP)[:64000])), heads=[(3, 1)])
    outputs = [state.run(DecodeRequest(np.array([[50257, 50362, 383]]), (2,)))]
    outputs.append(state.run(DecodeRequest(np.array([[464], [290]]), (0,), parents=(0, 0))))
    outputs.append(state.run(DecodeRequest(np.array([[11, 262, 262]] * 2), (0, 1, 2), parents=(1, 0))))
    state.rewind(2)
    outputs.append(state.run(DecodeRequest(np.array([[286]]), (0,), parents=(1,))))
    return outputs


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [0, 1, 2, 4, 5, 100])
def test_whatever_the_point(model: WhisperModel, tokens: int) -> None:
    handed_over: list[bool] = []
    for found, expected in zip(
        talk(exchanged(model, tokens, lambda: handed_over.append(True))), talk(model), strict=True
    ):
        for name, tolerance in (("top_ids", 0), ("top_logprobs", 1e-5), ("attention", 1e-6)):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=tolerance)
    assert len(handed_over) == (tokens <= 4)


@pytest.mark.parametrize(("budget", "runs"), [(3, 1), (4, 1), (5, 2), (6, 3)])
def test_what_is_drafted_after_the_prompt_counts(model: WhisperModel, budget: int, runs: int) -> None:
    """A prompt of three and a draft of four tokens, then one token a run, until the other worker has it."""
    handed_over: list[bool] = []
    state = exchanged(model, budget, lambda: handed_over.append(True)).decoder(
        model.encode(log_mel(load_audio(CLIP)[:64000]))
    )
    state.run(DecodeRequest(np.array([[50257, 50362, 383, 464, 11, 262, 286]]), (2, 3, 4, 5, 6), draft=4))
    done = 1
    while not handed_over and done < 9:
        state.run(DecodeRequest(np.array([[286]]), (0,)))
        done += 1
    assert done - 1 == runs
