"""Whisper in CTranslate2's names: the variable, or the rows of one, for each canonical tensor.

The names are those of ctranslate2's `WhisperSpec` (python/ctranslate2/specs/whisper_spec.py, transformer_spec.py).
Queries, keys and values of self-attention are one matrix there, keys and values of cross-attention another. The bias
that it has for keys, which Whisper has not, is left out: it adds the same to every key's score, and so nothing after
the softmax. Dimensions are read off the tensors.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from whispertide.checkpoint.ctranslate2_file import CTranslate2File, Rows, Variable
from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.generation import GenerationConfig
from whispertide.checkpoint.layout import EMBEDDING, OUTPUT_PROJECTION
from whispertide.checkpoint.untrusted import shorten
from whispertide.errors import CheckpointError

SPECIFICATION, REVISION = "WhisperSpec", 3
_HEAD_WIDTH = 64  # of every Whisper; files older than CTranslate2 2.23 do not name the number of heads
_GELU = 3  # ctranslate2/specs/common_spec.py, Activation

_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/(.+)/([a-z]+)")
_TOP = {
    "encoder/position_encodings/encodings": "encoder.embed_positions.weight",
    "decoder/position_encodings/encodings": "decoder.embed_positions.weight",
    "decoder/embeddings/weight": EMBEDDING,
    "decoder/projection/weight": OUTPUT_PROJECTION,
    **{f"encoder/conv{n}/{kind}": f"encoder.conv{n}.{kind}" for n in (1, 2) for kind in ("weight", "bias")},
    **{
        f"{part}/layer_norm/{theirs}": f"{part}.layer_norm.{ours}"
        for part in ("encoder", "decoder")
        for theirs, ours in (("gamma", "weight"), ("beta", "bias"))
    },
}
# Of a layer: what is in a matrix, one after the other.
_IN_LAYER: Mapping[str, tuple[str, ...]] = {
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "ffn/layer_norm": ("final_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
}
_KINDS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def check_specification(file: CTranslate2File) -> None:
    """Raises `CheckpointError` if the file holds another kind of model, or a Whisper in another layout."""
    name, revision = file.specification
    if (name, revision) != (SPECIFICATION, REVISION):
        what = f"revision {revision} of it" if name == SPECIFICATION else f"a {shorten(name)}"
        raise CheckpointError(
            f"expected a Whisper of CTranslate2 ({SPECIFICATION}, revision {REVISION}) in {file.path}; got {what}: "
            "take a Whisper model, converted with CTranslate2 3.0 or later"
        )
    odd = (file.scalars.get("decoder/activation", _GELU), file.scalars.get("decoder/scale_embeddings", 0))
    if odd != (_GELU, 0):
        raise CheckpointError(f"{file.path}: expected GELU and embeddings that are not scaled, as in every Whisper")


def tensors_of(file: CTranslate2File) -> Iterator[tuple[str, Rows]]:
    """Map canonical names to the places of the tensors. Names that no Whisper has stay, for the check of all."""
    for name, variable in file.variables.items():
        if not variable.shape or name.endswith("_scale"):
            continue
        if variable.type == "int32":
            raise CheckpointError(f"{file.path}: {name} is packed (AWQ), which cannot be read: take another conversion")
        match = _LAYER.fullmatch(name)
        if match is None or match[3] not in _IN_LAYER or match[4] not in _KINDS:
            yield _TOP.get(name, name.replace("/", ".")), Rows(variable, 0, variable.shape[0])
            continue
        for tensor, rows in _parts(variable, _IN_LAYER[match[3]]):
            kind = _KINDS[match[4]]
            if (kind, tensor[-6:]) != ("bias", "k_proj"):
                yield f"{match[1]}.layers.{match[2]}.{tensor}.{kind}", rows


def _parts(variable: Variable, names: tuple[str, ...]) -> Iterator[tuple[str, Rows]]:
    """Split a matrix into tensors of one height that lie in it one after the other."""
    height, rest = divmod(variable.shape[0], len(names))
    if rest:
        raise CheckpointError(f"expected {len(names)} matrices of one size in {variable.name}; it has {variable.shape}")
    for index, name in enumerate(names):
        yield name, Rows(variable, index * height, (index + 1) * height)


def dims_of(file: CTranslate2File) -> ModelDims:
    """Derive the dimensions from the shapes of the tensors. Raises `CheckpointError` if they are no Whisper's."""
    width = _shape(file, "encoder/position_encodings/encodings", 2)[1]
    return ModelDims(
        n_mels=_shape(file, "encoder/conv1/weight", 3)[1],
        n_audio_ctx=_shape(file, "encoder/position_encodings/encodings", 2)[0],
        n_audio_state=width,
        n_audio_head=file.scalars.get("encoder/num_heads", max(1, width // _HEAD_WIDTH)),
        n_audio_layer=_layers(file, "encoder"),
        n_vocab=_shape(file, "decoder/embeddings/weight", 2)[0],
        n_text_ctx=_shape(file, "decoder/position_encodings/encodings", 2)[0],
        n_text_state=_shape(file, "decoder/embeddings/weight", 2)[1],
        n_text_head=file.scalars.get("decoder/num_heads", max(1, width // _HEAD_WIDTH)),
        n_text_layer=_layers(file, "decoder"),
    )


def generation_of(config: Mapping[str, Any], dims: ModelDims) -> GenerationConfig:
    """Read the decoding settings from the `config.json` next to a `model.bin`. Raises `CheckpointError` for values of
    wrong types.
    """
    generation = {
        "alignment_heads": config.get("alignment_heads"),
        "suppress_tokens": config.get("suppress_ids"),
        "begin_suppress_tokens": config.get("suppress_ids_begin"),
    }
    return GenerationConfig.from_hf(generation, {}, dims)


def is_whisper_config(config: Mapping[str, Any]) -> bool:
    """True if a `config.json` is that of a Whisper: CTranslate2 does not name the kind of model in it."""
    return {"suppress_ids", "lang_ids"} <= config.keys()


def _shape(file: CTranslate2File, name: str, rank: int) -> tuple[int, ...]:
    found = file.variables.get(name)
    if found is None or len(found.shape) != rank:
        raise CheckpointError(f"{file.path} has no {name} of {rank} dimensions: it is incomplete, or no Whisper")
    return found.shape


def _layers(file: CTranslate2File, part: str) -> int:
    """The number of layers, counted from the first."""
    count = 0
    while f"{part}/layer_{count}/ffn/linear_0/weight" in file.variables:
        count += 1
    return count
