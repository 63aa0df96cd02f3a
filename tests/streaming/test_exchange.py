"""A decode that changes workers in the middle is the same decode."""

from pathlib import Path

import numpy as np
import pytest

from reference import nano
from whispertide.audio.file import load_audio
from whispertide.features import log_mel
from whispertide.model.request import DecodeOutput, DecodeRequest
from whispertide.model.whisper import WhisperModel
from whispertide.streaming.exchange import ExchangedModel, expected_tokens
from whispertide.streaming.round import Reference
from whispertide.types import Span, Word

CLIP = Path(__file__).parents[1] / "clips" / "quiet.flac"


@pytest.fixture(scope="module")
def model() -> WhisperModel:
    return nano()


def talk(model: WhisperModel) -> list[DecodeOutput]:
    """A prompt, two beams, a rewind and a last step: four positions behind the prompt, then the last one."""
    state = model.decoder(model.encode(log_mel(load_audio(CLIP)[:64000])), heads=[(3, 1)])
    outputs = [state.run(DecodeRequest(np.array([[50257, 50362, 383]]), (2,)))]
    outputs.append(state.run(DecodeRequest(np.array([[464], [290]]), (0,), parents=(0, 0))))
    outputs.append(state.run(DecodeRequest(np.array([[11, 262, 262]] * 2), (0, 1, 2), parents=(1, 0))))
    state.rewind(2)
    outputs.append(state.run(DecodeRequest(np.array([[286]]), (0,), parents=(1,))))
    return outputs


@pytest.mark.parametrize("tokens", [0, 1, 2, 4, 5, 100])
def test_whatever_the_point(model: WhisperModel, tokens: int) -> None:
    handed_over: list[bool] = []
    exchanged = ExchangedModel(
        model.view(model.options), model.view(model.options), tokens, lambda: handed_over.append(True)
    )
    for found, expected in zip(talk(exchanged), talk(model), strict=True):
        for name, tolerance in (("top_ids", 0), ("top_logprobs", 1e-5), ("attention", 1e-6)):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=tolerance)
    assert len(handed_over) == (tokens <= 4)


@pytest.mark.parametrize(("budget", "runs"), [(3, 1), (4, 1), (5, 2), (6, 3)])
def test_what_is_drafted_behind_the_prompt_counts(model: WhisperModel, budget: int, runs: int) -> None:
    """A prompt of three and a draft of four tokens, then one token a run, until the other worker has it."""
    handed_over: list[bool] = []
    view = model.view(model.options)
    exchanged = ExchangedModel(view, model.view(model.options), budget, lambda: handed_over.append(True))
    state = exchanged.decoder(model.encode(log_mel(load_audio(CLIP)[:64000])))
    state.run(DecodeRequest(np.array([[50257, 50362, 383, 464, 11, 262, 286]]), (2, 3, 4, 5, 6), draft=4))
    done = 1
    while not handed_over and done < 9:
        state.run(DecodeRequest(np.array([[286]]), (0,)))
        done += 1
    assert done - 1 == runs


def test_what_is_expected_is_what_was_heard_before(model: WhisperModel) -> None:
    words = tuple(Word(text, 0, 100, 1.0) for text in (" the", " old", " harbour"))
    said = Reference((1, 2), Span(0, 8000), words=words)  # tokens are of the whole window of then
    assert expected_tokens(model, said) == len(model.tokenizer.encode(" the old harbour")) >= 3
    assert expected_tokens(model, Reference((1, 2, 3, 4), Span(0, 8000))) == 4
    assert expected_tokens(model, None) == 0
