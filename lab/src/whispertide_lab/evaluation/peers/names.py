"""A checkpoint's tensors by OpenAI's names, for the peers that read OpenAI's formats (openai/whisper, model.py)."""

import re
from collections.abc import Iterator

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.layout import OPENAI_BLOCK, OPENAI_TOP, expected_shapes
from whispertide.types import FloatArray

_TO_OPENAI = {canonical: name for name, canonical in (OPENAI_TOP | OPENAI_BLOCK).items()}


def openai_tensors(checkpoint: Checkpoint) -> Iterator[tuple[str, FloatArray]]:
    """OpenAI's name and the float32 values of each tensor."""
    tensors = checkpoint.tensors
    for name in expected_shapes(checkpoint.dims, {name: tensors.shape(name) for name in tensors.names()}):
        yield to_openai_name(name), np.array(tensors.get(name), np.float32)


def to_openai_name(canonical: str) -> str:
    """Convert a canonical name to that of an OpenAI checkpoint."""
    if canonical in _TO_OPENAI:
        return _TO_OPENAI[canonical]
    stem, _, kind = canonical.rpartition(".")
    layer = re.fullmatch(r"(encoder|decoder)\.layers\.(\d+)\.(.+)", stem)
    if layer:
        return f"{layer[1]}.blocks.{layer[2]}.{_TO_OPENAI[layer[3]]}.{kind}"
    return f"{_TO_OPENAI.get(stem, stem)}.{kind}"
