"""A checkpoint -> CTranslate2's format, as faster-whisper loads it. Runs where `ctranslate2` is installed.

As ctranslate2's own converter for `transformers` does (converters/transformers.py, WhisperLoader), but from the files,
so that neither torch nor transformers is needed. Weights stay float32.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.generation import heads_or_later_half
from whispertide.checkpoint.json_file import read_json
from whispertide.types import FloatArray

# What faster-whisper would otherwise fetch from the network, or guess.
_COMPANIONS = ("tokenizer.json", "preprocessor_config.json")


def convert(model: str, output: Path) -> None:
    """Write the model into the folder `output`."""
    spec = specification(load_checkpoint(model), Path(model))
    spec.optimize(quantization=None)
    output.mkdir(parents=True, exist_ok=True)
    spec.save(str(output))
    for name in _COMPANIONS:
        if (Path(model) / name).is_file():
            shutil.copyfile(Path(model) / name, output / name)


def specification(checkpoint: Checkpoint, folder: Path) -> Any:
    """ctranslate2's description of a model, weights and all; `folder` has its tokenizer.json."""
    from ctranslate2.specs import WhisperSpec

    dims = checkpoint.dims
    spec = WhisperSpec(dims.n_audio_layer, dims.n_audio_head, dims.n_text_layer, dims.n_text_head)
    for conv in ("conv1", "conv2"):
        _copy(checkpoint, f"encoder.{conv}", getattr(spec.encoder, conv))
    for part, layers in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        layers.position_encodings.encodings = _get(checkpoint, f"{part}.embed_positions.weight")
        _norm(checkpoint, f"{part}.layer_norm", layers.layer_norm)
        for index, layer in enumerate(layers.layer):
            _layer(checkpoint, f"{part}.layers.{index}", layer)
    embedding = _get(checkpoint, "decoder.embed_tokens.weight")
    spec.decoder.embeddings.weight = embedding
    spec.decoder.projection.weight = embedding
    spec.decoder.scale_embeddings = False
    _configure(checkpoint, spec.config)
    spec.register_vocabulary(_vocabulary(folder, dims.n_vocab))
    spec.validate()
    return spec


def _configure(checkpoint: Checkpoint, config: Any) -> None:
    generation, dims = checkpoint.generation, checkpoint.dims
    heads = heads_or_later_half(generation.alignment_heads, dims)
    config.alignment_heads = [list(pair) for pair in heads]
    config.suppress_ids = list(generation.suppress_tokens or ())
    config.suppress_ids_begin = list(generation.begin_suppress_tokens or ())
    config.lang_ids = sorted(checkpoint.tokenizer.language_tokens.values()) if dims.is_multilingual else []


def _get(checkpoint: Checkpoint, name: str) -> FloatArray:
    return np.asarray(checkpoint.tensors.get(name), np.float32)


def _copy(checkpoint: Checkpoint, name: str, spec: Any) -> None:
    spec.weight = _get(checkpoint, f"{name}.weight")
    spec.bias = _get(checkpoint, f"{name}.bias")


def _norm(checkpoint: Checkpoint, name: str, spec: Any) -> None:
    spec.gamma = _get(checkpoint, f"{name}.weight")
    spec.beta = _get(checkpoint, f"{name}.bias")


def _layer(checkpoint: Checkpoint, name: str, spec: Any) -> None:
    _norm(checkpoint, f"{name}.self_attn_layer_norm", spec.self_attention.layer_norm)
    _attention(checkpoint, f"{name}.self_attn", spec.self_attention, groups=(("q", "k", "v"),))
    if name.startswith("decoder."):
        _norm(checkpoint, f"{name}.encoder_attn_layer_norm", spec.attention.layer_norm)
        _attention(checkpoint, f"{name}.encoder_attn", spec.attention, groups=(("q",), ("k", "v")))
    _norm(checkpoint, f"{name}.final_layer_norm", spec.ffn.layer_norm)
    _copy(checkpoint, f"{name}.fc1", spec.ffn.linear_0)
    _copy(checkpoint, f"{name}.fc2", spec.ffn.linear_1)


def _attention(checkpoint: Checkpoint, name: str, spec: Any, groups: tuple[tuple[str, ...], ...]) -> None:
    """Each group of projections is one matrix; keys have no bias in Whisper, so theirs is zero."""
    for linear, group in zip(spec.linear, groups, strict=False):
        weights = [_get(checkpoint, f"{name}.{kind}_proj.weight") for kind in group]
        zero = np.zeros(len(weights[0]), np.float32)
        biases = [zero if kind == "k" else _get(checkpoint, f"{name}.{kind}_proj.bias") for kind in group]
        linear.weight, linear.bias = np.concatenate(weights), np.concatenate(biases)
    _copy(checkpoint, f"{name}.out_proj", spec.linear[-1])


def _vocabulary(folder: Path, size: int) -> list[str]:
    """The text of every token id; timestamps that an old tokenizer leaves out are after all others."""
    tokenizer = read_json(folder / "tokenizer.json")
    ids = {**tokenizer["model"]["vocab"], **{item["content"]: item["id"] for item in tokenizer["added_tokens"]}}
    tokens = [text for text, _ in sorted(ids.items(), key=lambda item: item[1])]
    return tokens + [f"<|{step * 0.02:.2f}|>" for step in range(size - len(tokens))]


if __name__ == "__main__":
    convert(sys.argv[1], Path(sys.argv[2]))
