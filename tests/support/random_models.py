"""Random Whisper models, those of the true widths with one or two layers, as folders and as checkpoints.

Weights as training begins with them give near-uniform attention, which hides errors in masks and positions. Here
queries and keys are larger, so that attention is peaked, and norms and biases are random too. None of it needs torch.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from multilingual_tokenizer import multilingual_tokenizer
from whispertide.checkpoint import Checkpoint, GenerationConfig, ModelDims, load_checkpoint
from whispertide.checkpoint.layout import Shape, expected_shapes
from whispertide.checkpoint.weights import TensorStore
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions
from whispertide.types import FloatArray
from whispertide_lab.checkpoint_folder import shape_config


def dims_of(mels: int, width: int, heads: int, encoder: int, decoder: int, vocabulary: int) -> ModelDims:
    """Of a Whisper with so many layers in its encoder and in its decoder; all have 30 s and 448 tokens."""
    return ModelDims(mels, 1500, width, heads, encoder, vocabulary, 448, width, heads, decoder)


TRUE_WIDTHS = {
    "tiny.en": dims_of(80, 384, 6, 2, 2, 51_864),
    "base": dims_of(80, 512, 8, 2, 2, 51_865),
    "small.en": dims_of(80, 768, 12, 2, 2, 51_864),
    "large-v3": dims_of(128, 1280, 20, 1, 1, 51_866),
}
MINI = dims_of(80, 128, 2, 2, 2, 51_864)


def hf_config(dims: ModelDims) -> dict[str, object]:
    """What a `config.json` says of such a model."""
    eot = 50_257 if dims.is_multilingual else 50_256
    return {
        "model_type": "whisper",
        "activation_function": "gelu",
        "num_mel_bins": dims.n_mels,
        "max_source_positions": dims.n_audio_ctx,
        "vocab_size": dims.n_vocab,
        "max_target_positions": dims.n_text_ctx,
        **shape_config(dims),
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), eot),
        "decoder_start_token_id": eot + 1,
    }


def random_folder(folder: Path, dims: ModelDims, *, seed: int = 0, embedding: float = 0.02) -> Path:
    """A new folder in Hugging Face's layout, weights as fp32. Tokens tell the more, the larger the `embedding` is."""
    rng = np.random.default_rng(seed)

    def tensor(name: str, shape: Shape) -> FloatArray:
        values = rng.standard_normal(shape, np.float32)
        if "layer_norm" in name:
            return 0.1 * values + name.endswith("weight")
        if name.endswith("bias"):
            return 0.05 * values
        if "embed_positions" in name:
            return 0.3 * values
        peaked = "q_proj" in name or "k_proj" in name
        return values * (embedding if "embed_tokens" in name else 0.08 if peaked else 0.02)

    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(hf_config(dims)))
    tensors = {f"model.{name}": tensor(name, shape) for name, shape in expected_shapes(dims).items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def random_whisper(folder: Path, dims: ModelDims, *, embedding: float = 0.02) -> Checkpoint:
    """The same as a checkpoint, with the bundled model's tokenizer whatever the vocabulary is."""
    tensors = TensorStore.from_folder(random_folder(folder, dims, embedding=embedding))
    generation = GenerationConfig.for_openai(dims)
    return Checkpoint(folder.name, dims, generation, load_checkpoint("nano.en").tokenizer, tensors)


def small_multilingual(folder: Path, layers: int) -> WhisperModel:
    """A random model of width 64 with so many decoder layers, and its graphs; it names no alignment heads."""
    random_folder(folder, dims_of(80, 64, 1, 1, layers, 51_865), seed=layers)
    (folder / "tokenizer.json").write_text(multilingual_tokenizer())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHISPERTIDE_CACHE", str(folder.parent / "cache"))
        model = load_model(str(folder), EngineOptions(precision="fp32", threads=1))
        model.decoder(model.encode(np.zeros((80, 200), np.float32)))  # builds the graphs
    return model


def speechlike(seed: int, frames: int, n_mels: int = 80) -> FloatArray:
    """Smooth random features within the range of Whisper's, [n_mels, 2 * frames]."""
    noise = np.random.default_rng(seed).standard_normal((n_mels, 2 * frames)).astype(np.float32)
    smooth = np.apply_along_axis(lambda row: np.convolve(row, np.ones(8) / 8, mode="same"), 1, noise)
    return np.asarray(np.clip(smooth, -1.0, 1.5), np.float32)
