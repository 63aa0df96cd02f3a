"""A checkpoint -> whisper.cpp's ggml format, float16 (whisper.cpp, models/convert-pt-to-ggml.py).

Needs nothing of whisper.cpp, so it runs in this program's own process.
"""

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

from whispertide.checkpoint import Checkpoint, Tokenizer, load_checkpoint
from whispertide.features import mel_filters
from whispertide.types import FloatArray
from whispertide_lab.evaluation.peers.names import openai_tensors

_MAGIC = 0x67676D6C  # "ggml"
_F32, _F16 = 0, 1


def convert(model: str, output: Path) -> None:
    """Write the model into the folder `output`, as model.bin."""
    checkpoint = load_checkpoint(model)
    output.mkdir(parents=True, exist_ok=True)
    with (output / "model.bin").open("wb") as file:
        _header(checkpoint, file)
        _vocabulary(checkpoint.tokenizer, file)
        for name, values in openai_tensors(checkpoint):
            _tensor(name, values, file)


def _header(checkpoint: Checkpoint, file: BinaryIO) -> None:
    dims = checkpoint.dims
    audio = (dims.n_audio_ctx, dims.n_audio_state, dims.n_audio_head, dims.n_audio_layer)
    text = (dims.n_text_ctx, dims.n_text_state, dims.n_text_head, dims.n_text_layer)
    file.write(struct.pack("<12i", _MAGIC, dims.n_vocab, *audio, *text, dims.n_mels, _F16))
    filters = mel_filters(dims.n_mels)
    file.write(struct.pack("<2i", *filters.shape) + np.ascontiguousarray(filters, "<f4").tobytes())


def _vocabulary(tokenizer: Tokenizer, file: BinaryIO) -> None:
    """The bytes of the ordinary tokens; whisper.cpp knows the special ones after them."""
    file.write(struct.pack("<i", tokenizer.eot))
    for token in range(tokenizer.eot):
        text = tokenizer.token_bytes(token)
        file.write(struct.pack("<i", len(text)) + text)


def _tensor(name: str, values: FloatArray, file: BinaryIO) -> None:
    if name in ("encoder.conv1.bias", "encoder.conv2.bias"):
        values = values[:, None]
    exact = values.ndim < 2 or name.endswith((".bias", "positional_embedding"))
    encoded = name.encode()
    file.write(struct.pack("<3i", values.ndim, len(encoded), _F32 if exact else _F16))
    file.write(struct.pack(f"<{values.ndim}i", *reversed(values.shape)) + encoded)
    file.write(np.ascontiguousarray(values, "<f4" if exact else "<f2").tobytes())
