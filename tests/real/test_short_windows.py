"""Short windows of people's checkpoints, bare with the adapters of the package or with merged padding: their texts end,
and lose no words.
"""

from collections.abc import Sequence
from functools import cache

import jiwer
import numpy as np
import pytest

from published_models import usual
from spoken_clips import clip
from whispertide.cli.demo import plain
from whispertide.decoding.prompt import build_prompt
from whispertide.decoding.rules import build_rules
from whispertide.features import log_mel
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, PAD30, Framing, Merged, taught_framing
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.clips import limit
from whispertide_lab.training.short_lessons import search

pytestmark = pytest.mark.real

LENGTHS_S = (1, 2, 3, 5)


@cache
def windows() -> tuple[FloatArray, ...]:
    """Cut anywhere out of a bundled recording."""
    sound = clip("long")
    cuts = [(at * SAMPLE_RATE, length * SAMPLE_RATE) for length in LENGTHS_S for at in range(2, 32, 6)]
    return tuple(sound[start : start + count] for start, count in cuts if start + count <= len(sound))


def heard(model: WhisperModel, samples: FloatArray, framing: Framing) -> str | None:
    """The greedy text; None: it does not end."""
    mel = log_mel(samples, model.dims.n_mels)
    asked = DecodeOptions(timestamps=False, max_tokens=limit(len(samples)))
    language = "en" if model.tokenizer.is_multilingual else None
    prompt = build_prompt(model.tokenizer, model.dims.n_text_ctx, asked, language=language, previous=())
    encoded = framing(model, mel)
    best = search(model, encoded, prompt, build_rules(model, asked)).best
    return plain(model.tokenizer.decode(best.tokens)) if best.stop == "end_of_text" else None


@cache
def heard_padded(name: str, number: int) -> str | None:
    """The text of a window as Whisper was trained, which several tests compare with."""
    return heard(usual(name).model, windows()[number], PAD30)


def errors(padded: Sequence[str | None], texts: Sequence[str | None]) -> float:
    """The share of wrong words, where there are any; a text that does not end has none."""
    asked = [(right, text or "") for right, text in zip(padded, texts, strict=True) if right]
    return float(jiwer.wer([right for right, _ in asked], [text for _, text in asked]))


@pytest.mark.parametrize("name", ["tiny.en", "base"])
def test_bare_windows_end_and_are_heard_as_padded_ones(name: str) -> None:
    model = usual(name).model
    assert model.knows_short, "the adapter that comes with the package is found"
    assert model.short is not model
    spoken = range(0, len(windows()), 2 if name == "tiny.en" else 3)  # base takes twice as long
    adapted = [heard(model.short, windows()[number], BARE) for number in spoken]
    padded = [heard_padded(name, number) for number in spoken]
    without = [heard(model, windows()[number], BARE) for number in spoken[::2]]
    assert adapted.count(None) <= 1  # rounding decides otherwise on other processors; none where this was written
    assert sum(map(bool, padded)) > len(spoken) / 2
    assert errors(padded, adapted) < 0.35
    # How many texts do not end without it depends on the processor; how much worse they are does less.
    assert errors(padded[::2], adapted[::2]) < errors(padded[::2], without) / 2


@pytest.mark.parametrize("name", ["tiny.en", "base"])
def test_with_merged_padding_a_checkpoint_needs_no_adapter(name: str) -> None:
    model = usual(name).model
    spoken = range(0, len(windows()), 2 if name == "tiny.en" else 4)
    merged = [heard(model, windows()[number], Merged()) for number in spoken]
    assert merged.count(None) <= 1
    padded = [heard_padded(name, number) for number in spoken]
    assert sum(map(bool, padded)) > len(spoken) / 2
    assert errors(padded, merged) < 0.35


def test_windows_of_tiny_are_heard_best_as_its_adapter_was_taught() -> None:
    model = usual("tiny.en").model
    assert model.short_merged
    taught = taught_framing(model.short_merged)
    spoken = range(0, len(windows()), 2)
    texts = [heard(model.short, windows()[number], taught) for number in spoken]
    assert texts.count(None) <= 1
    assert errors([heard_padded("tiny.en", number) for number in spoken], texts) < 0.25


@pytest.mark.parametrize("name", ["tiny.en", "base"])
@pytest.mark.parametrize("seconds", [0.5, 5])
def test_silence_is_as_short_as_when_it_is_padded(name: str, seconds: float) -> None:
    model, silence = usual(name).model, np.zeros(round(seconds * SAMPLE_RATE), np.float32)
    padded_text, text = heard(model, silence, PAD30), heard(model.short, silence, BARE)
    assert padded_text is not None
    assert text is not None
    assert len(text.split()) <= len(padded_text.split()) == 1  # "you": what Whisper says of silence, where no gate is
