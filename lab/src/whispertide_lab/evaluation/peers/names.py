"""A checkpoint's tensors by OpenAI's names, for the peers that read OpenAI's formats (openai/whisper, model.py)."""

from collections.abc import Iterator

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.layout import expected_shapes, to_openai_name
from whispertide.types import FloatArray


def openai_tensors(checkpoint: Checkpoint) -> Iterator[tuple[str, FloatArray]]:
    """OpenAI's name and the float32 values of each tensor."""
    tensors = checkpoint.tensors
    for name in expected_shapes(checkpoint.dims, {name: tensors.shape(name) for name in tensors.names()}):
        yield to_openai_name(name), np.array(tensors.get(name), np.float32)
