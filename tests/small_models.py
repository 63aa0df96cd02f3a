"""Small random checkpoints as folders: any number of decoder layers, English or multilingual, with a real tokenizer."""

from pathlib import Path

import pytest

from multilingual_tokenizer import multilingual_tokenizer
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions


def small_multilingual(folder: Path, layers: int) -> WhisperModel:
    """A random model of width 64 with so many decoder layers and peaked attention; it names no alignment heads.

    Graphs go to `WHISPERTIDE_CACHE`, which the caller sets.
    """
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    torch.manual_seed(layers)
    config = transformers.WhisperConfig(
        vocab_size=51_865, num_mel_bins=80, d_model=64, encoder_layers=1, decoder_layers=layers,
        encoder_attention_heads=1, decoder_attention_heads=1, encoder_ffn_dim=256, decoder_ffn_dim=256,
        pad_token_id=50_257, bos_token_id=50_257, eos_token_id=50_257, decoder_start_token_id=50_258,
        attn_implementation="eager",
    )  # fmt: skip
    module = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for key, tensor in module.named_parameters():
            if "q_proj" in key or "k_proj" in key:
                tensor.mul_(8.0)
            elif "embed_positions" in key:
                tensor.normal_(std=0.5)
    module.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "tokenizer.json").write_text(multilingual_tokenizer())
    return load_model(str(folder), EngineOptions(precision="fp32", threads=1))
