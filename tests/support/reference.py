"""The reference implementations that tests compare with: the bundled checkpoint inside openai-whisper and transformers.

torch is not part of the base install: each function skips the test that asks for what is not there.
"""

import json
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest

from whispertide.audio.file import load_audio
from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.decoding import longform
from whispertide.features import log_mel
from whispertide.model.engine import Encoded
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions
from whispertide.types import N_SAMPLES, FloatArray

NANO = BUNDLED_DIR / "nano.en"

# Hugging Face module names -> openai/whisper's (model.py), innermost last.
_RENAMES = (
    (r"^model\.", ""),
    (r"^proj_out\..*", ""),
    (r"\.layers\.", ".blocks."),
    (r"\.encoder_attn_layer_norm\.", ".cross_attn_ln."),
    (r"\.self_attn_layer_norm\.", ".attn_ln."),
    (r"\.final_layer_norm\.", ".mlp_ln."),
    (r"\.encoder_attn\.", ".cross_attn."),
    (r"\.self_attn\.", ".attn."),
    (r"\.q_proj\.", ".query."),
    (r"\.k_proj\.", ".key."),
    (r"\.v_proj\.", ".value."),
    (r"\.out_proj\.", ".out."),
    (r"\.fc1\.", ".mlp.0."),
    (r"\.fc2\.", ".mlp.2."),
    (r"\.embed_positions\.weight$", ".positional_embedding"),
    (r"^decoder\.embed_tokens\.", "decoder.token_embedding."),
    (r"^encoder\.layer_norm\.", "encoder.ln_post."),
    (r"^decoder\.layer_norm\.", "decoder.ln."),
)


CLIPS = [BUNDLED_DIR / "audio" / "demo.flac", *sorted((Path(__file__).parents[1] / "clips").glob("*.flac"))]


@cache
def mel_of(path: Path) -> FloatArray:
    """The features of the first 30 s of a clip, padded with silence: one window."""
    samples = load_audio(path)[:N_SAMPLES]
    return log_mel(np.pad(samples, (0, N_SAMPLES - len(samples))))


def openai_name(name: str) -> str:
    """The name of a Hugging Face tensor in openai/whisper; empty for one that is tied to another."""
    for pattern, replacement in _RENAMES:
        name = re.sub(pattern, replacement, name)
    return name


def openai_dims(config: Mapping[str, Any]) -> dict[str, int]:
    """`config.json` -> the arguments of openai/whisper's `ModelDimensions`."""
    return {
        "n_mels": config["num_mel_bins"],
        "n_audio_ctx": config["max_source_positions"],
        "n_audio_state": config["d_model"],
        "n_audio_head": config["encoder_attention_heads"],
        "n_audio_layer": config["encoder_layers"],
        "n_vocab": config["vocab_size"],
        "n_text_ctx": config["max_target_positions"],
        "n_text_state": config["d_model"],
        "n_text_head": config["decoder_attention_heads"],
        "n_text_layer": config["decoder_layers"],
    }


def openai_timing() -> Any:
    """openai-whisper's `timing` module, its loops as plain Python: compiling them takes longer than what they do
    here.
    """
    from whisper import timing

    for name in ("dtw_cpu", "backtrace"):
        setattr(timing, name, getattr(getattr(timing, name), "py_func", getattr(timing, name)))
    return timing


@dataclass
class RememberingEncoder:
    """An encoder that does not compute the same window twice while it is one of the last `room` that were asked for."""

    computes: Callable[..., Encoded]
    room: int = 32
    windows: OrderedDict[tuple[Any, ...], Encoded] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def encode(self, mel: FloatArray, **options: Any) -> Encoded:
        if options.get("attention") is not None or options.get("state") is not None:
            return self.computes(mel, **options)
        key = (mel.shape, str(mel.dtype), mel.tobytes(), *sorted(options.items()))
        with self.lock:
            known = self.windows.get(key)
            if known is not None:
                self.windows.move_to_end(key)
                return known
        encoded = self.computes(mel, **options)
        with self.lock:
            self.windows[key] = encoded
            if len(self.windows) > self.room:
                self.windows.popitem(last=False)
        return encoded


def remembering(model: WhisperModel) -> WhisperModel:
    """The model, with an encoder that remembers: most of the time of a test goes into the same few windows."""
    model.encode = RememberingEncoder(model.encode).encode
    return model


@cache
def nano() -> WhisperModel:
    """The bundled checkpoint in our own engine, fp32, with an encoder that remembers."""
    return remembering(load_model("nano.en", EngineOptions(precision="fp32", threads=1)))


def own_nano(folder: Path) -> Path:
    """The bundled checkpoint in the new `folder`, without what lies next to it."""
    folder.mkdir()
    for file in NANO.iterdir():
        if file.suffix != ".npz":
            (folder / file.name).symlink_to(file)
    return folder


@cache
def nano_encoded(path: Path) -> Encoded:
    """The first 30 s of a clip through our own encoder."""
    return nano().encode(mel_of(path))


@cache
def openai_model(folder: Path = NANO) -> Any:
    """The checkpoint in `folder` as an openai-whisper model in fp32, with its own alignment heads."""
    from safetensors.torch import load_file

    heads = json.loads((folder / "generation_config.json").read_text()).get("alignment_heads")
    dims = openai_dims(json.loads((folder / "config.json").read_text()))
    return _openai_model(dims, load_file(folder / "model.safetensors"), heads)


@cache
def openai_model_of(name: str) -> Any:
    """Any checkpoint that we can load, in the same way: float16 files give the numbers of OpenAI's float32."""
    import torch

    checkpoint = load_checkpoint(name)
    tensors = {each: torch.from_numpy(np.array(checkpoint.tensors.get(each))) for each in checkpoint.tensors.names()}
    return _openai_model(asdict(checkpoint.dims), tensors, checkpoint.generation.alignment_heads)


def _openai_model(dims: Mapping[str, int], tensors: Mapping[str, Any], heads: Any) -> Any:
    import torch
    import whisper

    torch.set_num_threads(1)  # its threads spin: on a busy machine two are slower than one
    openai_timing()
    with warnings.catch_warnings(action="ignore"):  # it leaves its vocabulary file open
        whisper.tokenizer.get_tokenizer(False)
        whisper.tokenizer.get_tokenizer(True)
    model = whisper.model.Whisper(whisper.ModelDimensions(**dims))
    renamed = {openai_name(name): value.float() for name, value in tensors.items()}
    renamed.pop("", None)
    model.load_state_dict(renamed)
    if heads:
        mask = torch.zeros(model.dims.n_text_layer, model.dims.n_text_head, dtype=torch.bool)
        mask[tuple(zip(*heads, strict=True))] = True
        model.register_buffer("alignment_heads", mask.to_sparse(), persistent=False)
    return model.eval()


def believe_as_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """openai-whisper skips what is left of a window after a closed text, where ours goes on. It believes all that it
    writes, and pads with zeros in the log-mel.
    """
    monkeypatch.setattr(longform, "CUT_SENTENCE", range(0))
    monkeypatch.setattr(longform, "EDGE", 0)
    monkeypatch.setattr(longform, "padded", lambda mel, to: np.pad(mel, [(0, 0), (0, to - mel.shape[1])]))


@cache
def openai_encoded(path: Path) -> Any:
    """The first 30 s of a clip through the encoder of `openai_model`: [1500, width]."""
    import torch

    with torch.no_grad():
        return openai_model().embed_audio(torch.from_numpy(mel_of(path))[None])[0]


@cache
def hf_model(folder: Path = NANO) -> Any:
    """The checkpoint in `folder` as a transformers model in fp32."""
    import torch
    import transformers

    torch.set_num_threads(1)
    return transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()


def ct2_folder(folder: Path, output: Path) -> Path:
    """The checkpoint in `folder` through CTranslate2's own converter into the new folder `output`, in fp32, with what
    faster-whisper reads next to it.
    """
    from ctranslate2.converters import TransformersConverter

    companions = ["tokenizer.json", "preprocessor_config.json"]
    TransformersConverter(str(folder), copy_files=companions).convert(str(output), quantization="float32")
    return output
