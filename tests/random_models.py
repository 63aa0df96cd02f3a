"""Random Whisper models of the true widths, the larger ones of few layers, as `transformers` modules and as our
checkpoints, for parity tests.

Freshly initialised weights give near-uniform attention, which hides errors in masks and positions. Here queries and
keys are scaled until attention is peaked, and norms and biases are random too.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whispertide.checkpoint import Checkpoint, GenerationConfig, ModelDims, Tokenizer, load_checkpoint
from whispertide.checkpoint.weights import TensorStore
from whispertide.types import FloatArray

Shape = tuple[int, int, int, int, int, int]  # mels, width, heads, encoder layers, decoder layers, vocabulary
SHAPES: dict[str, Shape] = {
    "tiny.en": (80, 384, 6, 4, 4, 51864),
    "base": (80, 512, 8, 6, 6, 51865),
    "small.en, two layers": (80, 768, 12, 2, 2, 51864),
    "large-v3, one layer": (128, 1280, 20, 1, 1, 51866),
}
PEAK = 4.0


@dataclass(frozen=True)
class RandomModel:
    """The same weights twice."""

    module: Any
    checkpoint: Checkpoint


def hf_config(shape: Shape, eot: int = 50_256) -> Any:
    """The `transformers` configuration of a shape; `eot` ends the text, and the next token starts it."""
    mels, width, heads, encoder_layers, decoder_layers, vocabulary = shape
    return pytest.importorskip("transformers").WhisperConfig(
        vocab_size=vocabulary,
        num_mel_bins=mels,
        d_model=width,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        pad_token_id=eot,
        bos_token_id=eot,
        eos_token_id=eot,
        decoder_start_token_id=eot + 1,
        attn_implementation="eager",
    )


def random_module(name: str, seed: int = 0) -> Any:
    """A `transformers` model with random weights and peaked attention."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed)
    module = transformers.WhisperForConditionalGeneration(hf_config(SHAPES[name])).eval()
    with torch.no_grad():
        for key, tensor in module.named_parameters():
            if "layer_norm" in key:
                tensor.add_(0.1 * torch.randn_like(tensor))
            elif key.endswith("bias"):
                tensor.normal_(std=0.05)
            elif "q_proj" in key or "k_proj" in key:
                tensor.mul_(PEAK)
            elif "embed_positions" in key:
                tensor.normal_(std=0.3)
    return module


def random_model(name: str, folder: Path, seed: int = 0) -> RandomModel:
    """Save a random module into `folder` and open it as a checkpoint (with the bundled model's tokenizer)."""
    module = random_module(name, seed)
    module.save_pretrained(folder)
    tokenizer: Tokenizer = load_checkpoint("nano.en").tokenizer
    dims = ModelDims.from_hf_config(module.config.to_dict())
    generation = GenerationConfig.for_openai(dims)
    return RandomModel(module, Checkpoint(name, dims, generation, tokenizer, TensorStore.from_folder(folder)))


def speechlike(seed: int, frames: int, n_mels: int = 80) -> FloatArray:
    """Smooth random features within the range of Whisper's, [n_mels, 2 * frames]."""
    noise = np.random.default_rng(seed).standard_normal((n_mels, 2 * frames)).astype(np.float32)
    smooth = np.apply_along_axis(lambda row: np.convolve(row, np.ones(8) / 8, mode="same"), 1, noise)
    return np.asarray(np.clip(smooth, -1.0, 1.5), np.float32)
