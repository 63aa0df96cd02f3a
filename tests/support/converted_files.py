"""Small files in the formats of CTranslate2 and whisper.cpp, written from what is published of them alone."""

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.layout import EMBEDDING, expected_shapes
from whispertide.errors import CheckpointError
from whispertide.features import mel_filters
from whispertide_lab.evaluation.peers.names import to_openai_name

# A Whisper so small that damage hits what describes it as often as its numbers.
TINY = ModelDims(
    n_mels=4,
    n_audio_ctx=3,
    n_audio_state=32,
    n_audio_head=2,
    n_audio_layer=1,
    n_vocab=40,
    n_text_ctx=5,
    n_text_state=32,
    n_text_head=2,
    n_text_layer=1,
)
Tensors = Mapping[str, np.ndarray]
CT2_TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")


def random_tensors(dims: ModelDims = TINY, dtype: str = "f4") -> dict[str, np.ndarray]:
    """By canonical name."""
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in expected_shapes(dims).items()}


def fused(tensors: Tensors, heads: int = 2) -> dict[str, np.ndarray]:
    """The same tensors as CTranslate2 names and joins them."""
    found: dict[str, np.ndarray] = {}
    for part in ("encoder", "decoder"):
        found[f"{part}/num_heads"] = np.array(heads, np.int16)
        found[f"{part}/position_encodings/encodings"] = tensors[f"{part}.embed_positions.weight"]
        _norm(found, tensors, f"{part}/layer_norm", f"{part}.layer_norm")
        layer = 0
        while f"{part}.layers.{layer}.fc1.weight" in tensors:
            _layer(found, tensors, f"{part}/layer_{layer}", f"{part}.layers.{layer}")
            layer += 1
    for conv in ("conv1", "conv2"):
        _joined(found, tensors, f"encoder/{conv}", [f"encoder.{conv}"])
    found["decoder/embeddings/weight"] = tensors[EMBEDDING]
    return found


def _layer(found: dict[str, np.ndarray], tensors: Tensors, to: str, name: str) -> None:
    kinds = [("self_attention", "self_attn", ["qkv", "o"])]
    if name.startswith("decoder"):
        kinds.append(("attention", "encoder_attn", ["q", "kv", "o"]))
    for theirs, ours, groups in kinds:
        _norm(found, tensors, f"{to}/{theirs}/layer_norm", f"{name}.{ours}_layer_norm")
        for index, group in enumerate(groups):
            parts = ["out" if letter == "o" else letter for letter in group]
            _joined(found, tensors, f"{to}/{theirs}/linear_{index}", [f"{name}.{ours}.{part}_proj" for part in parts])
    _norm(found, tensors, f"{to}/ffn/layer_norm", f"{name}.final_layer_norm")
    for index in (0, 1):
        _joined(found, tensors, f"{to}/ffn/linear_{index}", [f"{name}.fc{index + 1}"])


def _norm(found: dict[str, np.ndarray], tensors: Tensors, to: str, name: str) -> None:
    found[f"{to}/gamma"], found[f"{to}/beta"] = tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def _joined(found: dict[str, np.ndarray], tensors: Tensors, to: str, names: Sequence[str]) -> None:
    weights = [tensors[f"{name}.weight"] for name in names]
    zero = np.zeros(len(weights[0]), weights[0].dtype)
    found[f"{to}/weight"] = np.concatenate(weights)
    found[f"{to}/bias"] = np.concatenate([tensors.get(f"{name}.bias", zero) for name in names])


def write_ct2(
    path: Path,
    variables: Mapping[str, np.ndarray],
    aliases: Mapping[str, str] | None = None,
    *,
    version: int = 6,
    name: str = "WhisperSpec",
    revision: int = 3,
    bfloat16: bool = False,
) -> Path:
    """Write a `model.bin`. With `bfloat16`, numbers of two bytes without a sign are these."""
    content = struct.pack("<I", version) + _text(name) + struct.pack("<II", revision, len(variables))
    for key, values in variables.items():
        kind = "bfloat16" if bfloat16 and values.dtype == np.uint16 else values.dtype.name
        content += _text(key) + struct.pack(f"<B{values.ndim}I", values.ndim, *values.shape)
        content += struct.pack("<BI", CT2_TYPES.index(kind), values.nbytes) + values.tobytes()
    aliases = {"decoder/projection/weight": "decoder/embeddings/weight"} if aliases is None else aliases
    content += struct.pack("<I", len(aliases)) + b"".join(_text(text) for pair in aliases.items() for text in pair)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _text(text: str) -> bytes:
    return struct.pack("<H", len(text.encode()) + 1) + text.encode() + b"\0"


def write_ggml(
    path: Path,
    tensors: Tensors,
    dims: ModelDims = TINY,
    *,
    tokens: Sequence[bytes] = (b"a", b"b", b"ab"),
    stored: Mapping[str, tuple[int, bytes]] | None = None,
    filters: np.ndarray | None = None,
) -> Path:
    """Write a file of whisper.cpp; of the tensors in `stored` ggml's type and bytes are those, not the numbers."""
    audio = (dims.n_audio_ctx, dims.n_audio_state, dims.n_audio_head, dims.n_audio_layer)
    text = (dims.n_text_ctx, dims.n_text_state, dims.n_text_head, dims.n_text_layer)
    filters = mel_filters(dims.n_mels) if filters is None else filters
    content = struct.pack("<12i", 0x67676D6C, dims.n_vocab, *audio, *text, dims.n_mels, 1)
    content += struct.pack("<2i", *filters.shape) + filters.astype("<f4").tobytes()
    content += struct.pack("<i", len(tokens)) + b"".join(struct.pack("<i", len(token)) + token for token in tokens)
    for name, values in tensors.items():
        kind, raw = (stored or {}).get(name, ({4: 0, 2: 1}[values.itemsize], values.tobytes()))
        shape = (*values.shape, 1) if name in ("encoder.conv1.bias", "encoder.conv2.bias") else values.shape
        openai = to_openai_name(name).encode()
        content += struct.pack("<3i", len(shape), len(openai), kind)
        content += struct.pack(f"<{len(shape)}i", *reversed(shape)) + openai + raw
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def damages(content: bytes, count: int, seed: int = 0) -> list[bytes]:
    """As many damaged copies: bits turned, bytes overwritten, pieces cut out or added, the end cut off."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        at, kind = int(rng.integers(len(content))), int(rng.integers(5))
        if kind == 0:
            found.append(content[:at])
        elif kind == 1:
            found.append(content[:at] + bytes([content[at] ^ 1 << int(rng.integers(8))]) + content[at + 1 :])
        elif kind == 2:
            extreme = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\0\0\0\x80")[int(rng.integers(4))]
            found.append(content[:at] + extreme + content[at + 4 :])
        elif kind == 3:
            found.append(content[:at] + content[at + int(rng.integers(1, 64)) :])
        else:
            found.append(content[:at] + rng.bytes(int(rng.integers(1, 64))) + content[at:])
    return found


def complaints(path: Path, count: int, use: Callable[[], object]) -> list[str]:
    """What `use` says of damaged copies in the place of the file; of some it cannot see that they are."""
    whole = path.read_bytes()
    said = []
    for content in damages(whole, count):
        path.write_bytes(content)
        try:
            use()
        except CheckpointError as error:
            said.append(str(error))
    path.write_bytes(whole)
    return said


def as_stored(values: Any) -> np.ndarray:
    """float32 -> the upper halves, which is what bfloat16 keeps."""
    return (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2")
