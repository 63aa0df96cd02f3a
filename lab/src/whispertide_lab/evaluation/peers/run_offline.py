"""Programs that transcribe all audio at once: faster-whisper, openai-whisper, and whisper.cpp through its Python wheel.

Each runs in its own environment, at its own defaults but for what the job's settings say.
"""

from collections.abc import Callable
from typing import Any

from whispertide.types import FloatArray
from whispertide_lab.evaluation.peers.clocks import offline
from whispertide_lab.evaluation.peers.wire import Job, Recogniser, serve

Transcribe = Callable[[FloatArray], str]


def _faster_whisper(job: Job) -> Transcribe:
    from faster_whisper import WhisperModel

    model = WhisperModel(
        job.converted,
        device="cpu",
        compute_type=job.text("compute_type"),
        cpu_threads=int(job.number("threads")),
        local_files_only=True,
    )
    options = {"beam_size": int(job.number("beams"))}
    if not job.settings["fallback"]:
        options["temperature"] = 0

    def transcribe(samples: FloatArray) -> str:
        segments, _ = model.transcribe(samples, language=job.text("language"), **options)
        return "".join(segment.text for segment in segments)

    return transcribe


def _openai_whisper(job: Job) -> Transcribe:
    import torch
    import whisper

    torch.set_num_threads(int(job.number("threads")))
    model = whisper.load_model(f"{job.converted}/model.pt", device="cpu")
    options: dict[str, Any] = {"beam_size": int(job.number("beams")) or None}  # 0 is greedy, as is its default
    if not job.settings["fallback"]:
        options["temperature"] = 0.0

    def transcribe(samples: FloatArray) -> str:
        return str(model.transcribe(samples, language=job.text("language"), fp16=False, **options)["text"])

    return transcribe


def _whisper_cpp(job: Job) -> Transcribe:
    """Greedy with its own fallback as by default, or beam search."""
    from pywhispercpp.model import Model

    beams = int(job.number("beams"))
    options: dict[str, Any] = {"beam_search": {"beam_size": beams, "patience": -1.0}} if beams else {}
    if not job.settings["fallback"]:
        options["temperature_inc"] = 0.0
    model = Model(
        f"{job.converted}/model.bin",
        params_sampling_strategy=1 if beams else 0,
        redirect_whispercpp_logs_to=None,
        n_threads=int(job.number("threads")),
        language=job.text("language"),
        print_progress=False,
        **options,
    )
    return lambda samples: " ".join(segment.text for segment in model.transcribe(samples))


PROGRAMS = {"faster-whisper": _faster_whisper, "openai-whisper": _openai_whisper, "whisper.cpp": _whisper_cpp}


def load(job: Job) -> Recogniser:
    """Open the converted model."""
    return offline(PROGRAMS[job.recogniser](job))


if __name__ == "__main__":
    serve(load)
