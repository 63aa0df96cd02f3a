"""Small random checkpoints as folders: any number of decoder layers, English or multilingual, with a real tokenizer."""

from pathlib import Path

import pytest

from multilingual_tokenizer import multilingual_tokenizer
from random_models import hf_config
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions


def small_multilingual(folder: Path, layers: int) -> WhisperModel:
    """A random model of width 64 with so many decoder layers and peaked attention; it names no alignment heads.

    Graphs go to `WHISPERTIDE_CACHE`, which the caller sets.
    """
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    torch.manual_seed(layers)
    module = transformers.WhisperForConditionalGeneration(hf_config((80, 64, 1, 1, layers, 51_865), 50_257)).eval()
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
