"""A checkpoint's tensors by OpenAI's names, for the peers that read OpenAI's formats (openai/whisper, model.py)."""

from collections.abc import Iterator

import numpy as np

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.layout import expected_shapes
from whispertide.types import FloatArray

_TOP = {
    "encoder.embed_positions.weight": "encoder.positional_embedding",
    "decoder.embed_positions.weight": "decoder.positional_embedding",
    "decoder.embed_tokens.weight": "decoder.token_embedding.weight",
}
_INNER = {
    "self_attn.q_proj": "attn.query",
    "self_attn.k_proj": "attn.key",
    "self_attn.v_proj": "attn.value",
    "self_attn.out_proj": "attn.out",
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn.q_proj": "cross_attn.query",
    "encoder_attn.k_proj": "cross_attn.key",
    "encoder_attn.v_proj": "cross_attn.value",
    "encoder_attn.out_proj": "cross_attn.out",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
    "final_layer_norm": "mlp_ln",
}


def openai_tensors(checkpoint: Checkpoint) -> Iterator[tuple[str, FloatArray]]:
    """OpenAI's name and the float32 values of each tensor."""
    tensors = checkpoint.tensors
    for name in expected_shapes(checkpoint.dims, {name: tensors.shape(name) for name in tensors.names()}):
        yield openai_name(name), np.array(tensors.get(name), np.float32)


def openai_name(canonical: str) -> str:
    """The name of a tensor in an OpenAI checkpoint."""
    if canonical in _TOP:
        return _TOP[canonical]
    part, layers, rest = canonical.partition(".layers.")
    if layers:
        index, _, stem = rest.partition(".")
        module, _, kind = stem.rpartition(".")
        return f"{part}.blocks.{index}.{_INNER[module]}.{kind}"
    return canonical.replace("encoder.layer_norm.", "encoder.ln_post.").replace("decoder.layer_norm.", "decoder.ln.")
