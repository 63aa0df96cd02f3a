"""The names and shapes of a Whisper's tensors: the canonical ones, and how OpenAI's names map to them.

Canonical names are Hugging Face's (transformers, modeling_whisper.py) without the leading "model."; the output
projection has none, because it is the token embedding. This module knows nothing of files.
"""

import re
from collections.abc import Mapping

from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.untrusted import first_of, quote
from whispertide.errors import CheckpointError

Shape = tuple[int, ...]

EMBEDDING = "decoder.embed_tokens.weight"
POSITIONS = "encoder.embed_positions.weight"  # sinusoids in every Whisper
OUTPUT_PROJECTION = "proj_out.weight"  # as Hugging Face names it; tied to the embedding in every Whisper

OPENAI_TOP = {
    "encoder.positional_embedding": POSITIONS,
    "encoder.ln_post": "encoder.layer_norm",
    "decoder.token_embedding": "decoder.embed_tokens",
    "decoder.positional_embedding": "decoder.embed_positions.weight",
    "decoder.ln": "decoder.layer_norm",
}
OPENAI_BLOCK = {
    "attn.query": "self_attn.q_proj",
    "attn.key": "self_attn.k_proj",
    "attn.value": "self_attn.v_proj",
    "attn.out": "self_attn.out_proj",
    "attn_ln": "self_attn_layer_norm",
    "cross_attn.query": "encoder_attn.q_proj",
    "cross_attn.key": "encoder_attn.k_proj",
    "cross_attn.value": "encoder_attn.v_proj",
    "cross_attn.out": "encoder_attn.out_proj",
    "cross_attn_ln": "encoder_attn_layer_norm",
    "mlp.0": "fc1",
    "mlp.2": "fc2",
    "mlp_ln": "final_layer_norm",
}
# Buffers that openai/whisper may save next to the weights; both can be computed.
_OPENAI_BUFFERS = frozenset({"decoder.mask", "alignment_heads"})


def from_hf_name(name: str) -> str:
    """Convert the name of a tensor in a Hugging Face file to the canonical one."""
    return name.removeprefix("model.")


def from_openai_name(name: str) -> str | None:
    """Convert the name of a tensor in an OpenAI checkpoint to the canonical one; None for a buffer that is not a
    weight.

    A name of neither kind is returned as it is, so that the check of all tensors can report it.
    """
    if name in _OPENAI_BUFFERS:
        return None
    if name in OPENAI_TOP:
        return OPENAI_TOP[name]
    block = re.fullmatch(r"(encoder|decoder)\.blocks\.(\d+)\.(.+)\.(weight|bias)", name)
    if block and block[3] in OPENAI_BLOCK:
        return f"{block[1]}.layers.{block[2]}.{OPENAI_BLOCK[block[3]]}.{block[4]}"
    stem, _, kind = name.rpartition(".")
    return f"{OPENAI_TOP[stem]}.{kind}" if stem in OPENAI_TOP else name


def check_tensors(shapes: Mapping[str, Shape], dims: ModelDims, source: str) -> None:
    """Check that the tensors of a checkpoint are those of a Whisper of these dimensions.

    `shapes` maps canonical names to shapes, `source` names the checkpoint in messages. The inner width of the
    feed-forward layers is free, because `ModelDims` does not fix it, but must agree within a layer. Tensors outside
    encoder and decoder (heads that a training added) are ignored here. Raises `CheckpointError` that names
    the first tensors that are missing, of the wrong shape, or too many.
    """
    expected = expected_shapes(dims, shapes)
    missing = [name for name in expected if name not in shapes]
    if missing:
        raise CheckpointError(
            f"{source} lacks {len(missing)} of the {len(expected)} tensors of this model, first {first_of(missing)}; "
            "the weights are incomplete or belong to another model: download them again"
        )
    wrong = [name for name, shape in expected.items() if shapes[name] != shape]
    if wrong:
        name = wrong[0]
        details = f"{name}: expected {expected[name]}, found {quote(shapes[name])}"
        raise CheckpointError(
            f"{len(wrong)} tensors of {source} do not have the shape that its configuration says, first {details}. "
            "The weights and the configuration belong to different models."
        )
    unknown = sorted(name for name in set(shapes) - set(expected) if name.startswith(("encoder.", "decoder.")))
    if unknown:
        raise CheckpointError(
            f"{source} has {len(unknown)} tensors that a Whisper of these dimensions does not have, first "
            f"{first_of(unknown)}; the configuration must be this model's, and adapters must be merged into the weights"
        )


def expected_shapes(dims: ModelDims, found: Mapping[str, Shape] | None = None) -> dict[str, Shape]:
    """Map canonical names to shapes of all tensors; the feed-forward width is 4x, or that of each layer in `found`."""
    width = dims.n_audio_state
    shapes: dict[str, Shape] = {
        "encoder.conv1.weight": (width, dims.n_mels, 3),
        "encoder.conv1.bias": (width,),
        "encoder.conv2.weight": (width, width, 3),
        "encoder.conv2.bias": (width,),
        POSITIONS: (dims.n_audio_ctx, width),
        EMBEDDING: (dims.n_vocab, width),
        "decoder.embed_positions.weight": (dims.n_text_ctx, width),
    }
    for part, layers in (("encoder", dims.n_audio_layer), ("decoder", dims.n_text_layer)):
        for layer in range(layers):
            prefix = f"{part}.layers.{layer}"
            inner = (found or {}).get(f"{prefix}.fc1.bias", (4 * width,))
            # A tensor without any dimension is told of by the check of all shapes.
            shapes |= _layer(prefix, width, inner[0] if inner else 4 * width, cross=part == "decoder")
        shapes |= _norm(f"{part}.layer_norm", width)
    return shapes


def _layer(prefix: str, width: int, inner: int, cross: bool) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {
        f"{prefix}.fc1.weight": (inner, width),
        f"{prefix}.fc1.bias": (inner,),
        f"{prefix}.fc2.weight": (width, inner),
        f"{prefix}.fc2.bias": (width,),
    }
    shapes |= _norm(f"{prefix}.final_layer_norm", width)
    for attention in ("self_attn", "encoder_attn") if cross else ("self_attn",):
        shapes |= _norm(f"{prefix}.{attention}_layer_norm", width)
        for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes[f"{prefix}.{attention}.{projection}.weight"] = (width, width)
            if projection != "k_proj":  # Whisper's keys have no bias
                shapes[f"{prefix}.{attention}.{projection}.bias"] = (width,)
    return shapes


def _norm(prefix: str, width: int) -> dict[str, Shape]:
    return {f"{prefix}.weight": (width,), f"{prefix}.bias": (width,)}
