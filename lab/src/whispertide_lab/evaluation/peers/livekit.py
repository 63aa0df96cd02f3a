"""What both programs that run WhisperLiveKit share: its engine, opened on our checkpoint and off the network."""

import base64
import gzip
import logging
from pathlib import Path
from typing import Any

import numpy as np

from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.generation import heads_or_later_half
from whispertide_lab.evaluation.peers.convert_openai import convert
from whispertide_lab.evaluation.peers.wire import Job


def open_engine(job: Job, policy: str, *, gate: bool) -> Any:
    """Its `TranscriptionEngine` at its defaults, with "localagreement" or "simulstreaming".

    Both use faster-whisper's encoder, as they do wherever it is installed. `gate` is its voice gate (VAC).
    """
    from whisperlivekit.core import TranscriptionEngine

    logging.disable(logging.WARNING)
    settings = {
        "backend_policy": policy,
        "backend": "faster-whisper",
        "lan": job.text("language"),
        "pcm_input": True,
        "warmup_file": "",  # else it would fetch a recording
        "vac": gate,
        "asr_coalesce_min_s": job.settings.get("step_s", 0.0),
    }
    if policy == "simulstreaming":
        folder = Path(job.output).parent
        convert(job.model, folder)  # its decoder reads no CTranslate2
        settings |= {
            "model_path": str(named_for_its_language(folder / "model.pt", job.model)),
            "encoder_model_path": job.converted,
            "custom_alignment_heads": alignment_mask(job.model),
            "beams": int(job.number("beams")),
            "frame_threshold": int(job.number("frame_threshold")),
        }
    else:
        settings |= {"model_path": job.converted, "buffer_trimming_sec": job.number("trim_s")}
    engine = TranscriptionEngine(**settings)
    if policy == "localagreement" and not job.settings["fallback"]:
        engine.asr.transcribe_kargs["temperature"] = 0
    return engine


def alignment_mask(model: str) -> str:
    """The alignment heads as openai/whisper writes them: a boolean [layers, heads], zipped, in base 85.

    Where a checkpoint names none, those of the later half of the layers, as openai/whisper does.
    """
    checkpoint = load_checkpoint(model)
    mask = np.zeros((checkpoint.dims.n_text_layer, checkpoint.dims.n_text_head), bool)
    for layer, head in heads_or_later_half(checkpoint.generation.alignment_heads, checkpoint.dims):
        mask[layer, head] = True
    return base64.b85encode(gzip.compress(mask.tobytes())).decode()


def named_for_its_language(weights: Path, model: str) -> Path:
    """It tells English-only models by the name: the `.pt` of `model`, renamed if it is such a one."""
    return weights if load_checkpoint(model).dims.is_multilingual else weights.rename(weights.with_suffix(".en.pt"))
