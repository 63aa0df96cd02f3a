"""The shape of a Whisper model, from a Hugging Face `config.json` or from the `dims` of an OpenAI checkpoint.

Names follow openai/whisper (model.py, `ModelDimensions`). This module knows nothing of files, weights or tokens.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from whispertide.checkpoint.untrusted import quote
from whispertide.errors import CheckpointError

# openai/whisper decides by the size of the vocabulary: 51,864 is English-only, 51,865 multilingual, 51,866 large-v3.
MULTILINGUAL_VOCAB = 51_865

# Hugging Face configuration key for each dimension (transformers, WhisperConfig), and what is far beyond any Whisper,
# so that a damaged or hostile file cannot ask for a model that fills the machine.
_DIMS: Mapping[str, tuple[str, int]] = {
    "n_mels": ("num_mel_bins", 1_024),
    "n_audio_ctx": ("max_source_positions", 100_000),
    "n_audio_state": ("d_model", 16_384),
    "n_audio_head": ("encoder_attention_heads", 256),
    "n_audio_layer": ("encoder_layers", 256),
    "n_vocab": ("vocab_size", 1_000_000),
    "n_text_ctx": ("max_target_positions", 100_000),
    "n_text_state": ("d_model", 16_384),
    "n_text_head": ("decoder_attention_heads", 256),
    "n_text_layer": ("decoder_layers", 256),
}


@dataclass(frozen=True, slots=True)
class ModelDims:
    """The ten numbers that fix the shape of a Whisper model.

    Raises `CheckpointError` when one is not a positive integer or beyond any Whisper, when the heads do not divide the
    width, or when encoder and decoder differ in width (cross-attention of Whisper projects from one width to the same).
    """

    n_mels: int
    n_audio_ctx: int
    n_audio_state: int
    n_audio_head: int
    n_audio_layer: int
    n_vocab: int
    n_text_ctx: int
    n_text_state: int
    n_text_head: int
    n_text_layer: int

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise CheckpointError(f"expected {name} to be a positive integer; got {quote(value)}")
            if value > (most := _DIMS[name][1]):
                raise CheckpointError(f"expected {name} to be at most {most}; got {quote(value)}: that is no Whisper")
        if self.n_audio_state != self.n_text_state:
            raise CheckpointError(
                f"expected encoder and decoder of the same width; got {self.n_audio_state} and {self.n_text_state}"
            )
        for heads in (self.n_audio_head, self.n_text_head):
            if self.n_audio_state % heads:
                raise CheckpointError(
                    f"expected a number of heads that divides the width {self.n_audio_state}; got {heads}"
                )

    @property
    def is_multilingual(self) -> bool:
        """True if the vocabulary has language tokens that the model was trained with (openai/whisper, model.py)."""
        return self.n_vocab >= MULTILINGUAL_VOCAB

    @classmethod
    def from_hf_config(cls, config: Mapping[str, Any]) -> "ModelDims":
        """Dimensions from the contents of a Hugging Face `config.json`.

        Raises `CheckpointError` when the configuration is not a Whisper's, lacks a dimension, or asks for an
        architecture that Whisper does not have.
        """
        if config.get("model_type") != "whisper":
            raise CheckpointError(
                f"expected config.json of a Whisper model (model_type 'whisper'); got "
                f"{quote(config.get('model_type'))}. Other speech models cannot be loaded."
            )
        if config.get("activation_function", "gelu") != "gelu":
            raise CheckpointError(
                f"expected activation_function 'gelu' in config.json; got {quote(config['activation_function'])}"
            )
        if config.get("scale_embedding", False):
            raise CheckpointError("expected scale_embedding false in config.json, as in every Whisper; got true")
        missing = sorted({key for key, _ in _DIMS.values() if key not in config})
        if missing:
            raise CheckpointError(f"config.json lacks {', '.join(missing)}; download the model again")
        return cls(**{name: config[key] for name, (key, _) in _DIMS.items()})

    @classmethod
    def from_openai(cls, dims: Mapping[str, Any]) -> "ModelDims":
        """Dimensions from the `dims` dictionary of an OpenAI `.pt` checkpoint.

        Raises `CheckpointError` when a dimension is missing or unknown.
        """
        expected = {item.name for item in fields(cls)}
        if expected != set(dims):
            raise CheckpointError(
                f"expected the dims {', '.join(sorted(expected))}; missing {quote(sorted(expected - set(dims)))}, "
                f"unknown {quote(sorted(map(str, set(dims) - expected)))}"
            )
        return cls(**dims)
