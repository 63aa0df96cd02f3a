"""A late-contextualisation network of random weights, small enough for tests. It needs no torch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from whispertide.checkpoint.layout import Shape
from whispertide.understand.checkpoint import LateCheckpoint, LateDims
from whispertide.understand.intent_words import IntentWords, hashed
from whispertide.understand.model import LateModel
from whispertide_lab.training.latecontext.folder import learn_vocabulary

TEXTS = ["play some music", "set an alarm for seven", "what is the weather"]
INTENTS = ["play_music", "alarm_set"]


def small_late(seed: int = 1, attending_inner: int | None = None) -> LateCheckpoint:
    """Width 32, two layers of each kind, 40 tokens; gates that are not all open, so that convolutions count."""
    vocabulary = learn_vocabulary(TEXTS, INTENTS, 40)
    dims = LateDims(
        width=32,
        heads=2,
        inner=64,
        attending_inner=attending_inner,
        kernel=5,
        convolving=2,
        attending=2,
        n_vocab=vocabulary.size,
    )
    rng = np.random.default_rng(seed)
    tensors = {name: 0.2 * rng.standard_normal(shape, np.float32) for name, shape in late_shapes(dims).items()}
    return LateCheckpoint(dims, tensors, vocabulary)


def late_shapes(dims: LateDims) -> dict[str, Shape]:
    """The shape of every weight of a network of the kind "late"."""
    width, half = dims.width, dims.inner // 2
    shapes = {
        **_layer("encoder.subsampling.first", width, dims.n_mels, 3),
        **_layer("encoder.subsampling.second", width, width, 3),
        **_layer("encoder.norm", width),
        **_layer("ctc", dims.n_vocab + 1, width),
        "decoder.embedding.weight": (dims.n_vocab, width),
        **_layer("decoder.norm", width),
    }
    for number in range(dims.convolving):
        name = f"encoder.convolving.{number}"
        shapes |= _layer(f"{name}.norm", width) | _layer(f"{name}.up", dims.inner, width)
        shapes |= _layer(f"{name}.gate_norm", half) | _layer(f"{name}.gate", half, 1, dims.kernel)
        shapes |= _layer(f"{name}.down", width, half)
    for number in range(dims.attending):
        name = f"encoder.attending.{number}"
        shapes |= _attention(f"{name}.attention", width)
        shapes |= _feed_forward(f"{name}.feed_forward", width, dims.after_attention) if dims.after_attention else {}
    for number in range(dims.decoding):
        name = f"decoder.layers.{number}"
        shapes |= _attention(f"{name}.text", width) | _attention(f"{name}.frames", width)
        shapes |= _feed_forward(f"{name}.feed_forward", width, dims.inner)
    return shapes


def _layer(name: str, *shape: int) -> dict[str, Shape]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _attention(name: str, width: int) -> dict[str, Shape]:
    shapes = _layer(f"{name}.norm", width) | {f"{name}.key.weight": (width, width)}
    for part in ("query", "value", "out"):
        shapes |= _layer(f"{name}.{part}", width, width)
    return shapes


def _feed_forward(name: str, width: int, inner: int) -> dict[str, Shape]:
    return _layer(f"{name}.norm", width) | _layer(f"{name}.up", inner, width) | _layer(f"{name}.down", width, inner)


def told_by_words(texts: Sequence[str], wanted: Sequence[int]) -> IntentWords:
    """What tells the intent of each text by its words, as if it was learned."""
    rows = 512
    weights = np.zeros((rows, max(wanted) + 1), np.float32)
    for text, intent in zip(texts, wanted, strict=True):
        weights[hashed(text, rows), intent] += 4.0
    return IntentWords(weights)


@contextmanager
def late_model(folder: Path) -> Iterator[LateModel]:
    """The network of a folder, whose graphs are kept next to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHISPERTIDE_CACHE", str(folder.parent))
        yield LateModel.open(folder)


SOUND = (0.1 * np.random.default_rng(0).standard_normal(24_300)).astype(np.float32)
